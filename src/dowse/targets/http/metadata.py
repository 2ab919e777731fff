"""What a served model's metadata say of its tensors, and what the options say instead."""

from dowse.errors import InputError, nearest
from dowse.targets.http.inference_protocol import ModelMetadata, TensorSpec
from dowse.targets.options import HttpOptions


def pick_input(metadata: ModelMetadata, options: HttpOptions) -> TensorSpec:
    """The input tensor, as the options and else the metadata describe it."""
    by_name = {tensor.name: tensor for tensor in metadata.inputs}
    name = options.input
    if name is None and len(by_name) != 1:
        has = f"has the inputs {', '.join(by_name)}" if by_name else "does not say what its input is called"
        raise InputError(f"the model {has}: say which one with input=NAME")
    if name is not None and by_name and name not in by_name:
        raise InputError(f"the model has no input {name!r}: {nearest(name, by_name)}")
    said = by_name.get(name or "", TensorSpec(name or "", "FP32", ())) if name else next(iter(by_name.values()))
    return said._replace(datatype=options.datatype or said.datatype)


def pick_output(metadata: ModelMetadata, options: HttpOptions) -> str | None:
    """The output tensor's name; None takes the only one that comes."""
    names = [tensor.name for tensor in metadata.outputs]
    if options.output is not None and names and options.output not in names:
        raise InputError(f"the model has no output {options.output!r}: {nearest(options.output, names)}")
    return options.output or (names[0] if len(names) > 1 else None)


def declared_classes(metadata: ModelMetadata, output: str | None) -> int | None:
    """K where the metadata fix it."""
    shapes = [tensor.shape for tensor in metadata.outputs if output in (None, tensor.name)]
    if len(shapes) != 1 or len(shapes[0]) not in (1, 2) or shapes[0][-1] < 1:
        return None
    return shapes[0][-1]


def declared_sizes(shape: tuple[int, ...]) -> list[int | None] | None:
    """A declared shape with None where a size is free; None where nothing is declared."""
    return [size if size >= 1 else None for size in shape] or None


def declared_batch(shape: tuple[int, ...]) -> int | None:
    """The number of rows that every request must have; None where it is free."""
    return shape[0] if len(shape) == 4 and shape[0] >= 1 else None
