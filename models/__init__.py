"""The gallery: each file has a builder, a `model` built by it on real data, and its optimum."""

if __name__ == "models":  # a second copy of every class, unequal to the first
    raise ImportError("This folder is a part of dald_model. Write 'import dald_model.models'.")
