"""Questions about several estimates: comparisons, explanations, alternatives, searches, cost and rules."""
