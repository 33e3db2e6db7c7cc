"""What operators are called and what one call of each costs."""
