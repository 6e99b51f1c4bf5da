"""The gallery: each file builds a `Model`, runs as a script and carries its reference answer."""

if __name__ == "models":  # a second copy of every class, unequal to the first
    raise ImportError("This folder is a part of dald_model. Write 'import dald_model.models'.")
