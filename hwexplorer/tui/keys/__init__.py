"""The actions of the screen, their keys, and the reference written from them."""
