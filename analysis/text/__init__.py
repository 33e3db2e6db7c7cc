"""Sentences about estimates, written from their figures: reasons for a cost, and phrases of a few words."""
