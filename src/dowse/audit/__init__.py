"""The audit: how many queries a model withstands, as a sentence, a page, a gate and an object."""
