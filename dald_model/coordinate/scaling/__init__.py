"""Scaling: lengths, slopes and penalties of a model, measured once before the first round."""
