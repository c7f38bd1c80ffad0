"""The write path: texts become chunks that fit the model, chunks become points. No searches."""
