"""Training of the four matched models: recipes, text, excerpts, objectives, the loop, and the model card."""
