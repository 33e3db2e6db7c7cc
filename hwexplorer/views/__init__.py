"""Views: plain data made from a state and its analysis. Screen and exporters render the same views, so they agree."""
