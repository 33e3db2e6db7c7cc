"""Optional jobs outside of exploration, one package each. The rest of `analysis` never imports them."""
