"""What a served model's metadata say of its tensors, and what the options say instead."""

from operator import attrgetter

from dowse.errors import InputError
from dowse.targets.declared_form import named
from dowse.targets.http.inference_protocol import ModelMetadata, TensorSpec
from dowse.targets.options import HttpOptions


def pick_input(metadata: ModelMetadata, options: HttpOptions) -> TensorSpec:
    """The input tensor, as the options and else the metadata describe it."""
    if metadata.inputs:
        said = named("input", metadata.inputs, options.input, attrgetter("name"))
    elif options.input is not None:
        said = TensorSpec(options.input, "FP32", ())
    else:
        raise InputError("the model does not say what its input is called: say which one with input=NAME")
    return said._replace(datatype=options.datatype or said.datatype)


def pick_output(metadata: ModelMetadata, options: HttpOptions) -> str | None:
    """The output tensor's name; None takes the only one that comes."""
    if not metadata.outputs or (options.output is None and len(metadata.outputs) == 1):
        return options.output
    return named("output", metadata.outputs, options.output, attrgetter("name")).name


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
