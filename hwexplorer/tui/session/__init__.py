"""The exploration without a screen: state, history, views, jobs and messages. Nothing here imports Textual."""
