"""The names that people are sent to: the API pages are made of them, and docs import no other.

`dowse.*` itself is what `dowse.__all__` lists. They stay within a minor version; everything else may change.
"""

PUBLIC: dict[str, set[str]] = {
    "dowse.attacks": {"Attack"},
    "dowse.core.flow": {
        "Answer", "Flow", "Opening", "Query", "Seen", "Weights",
        "ask", "check", "examine", "look", "note", "opening", "prior_at", "pull",
    },
    "dowse.core.target": {"Delivery", "Target", "as_target"},
    "dowse.defences": {"DEFENCES", "Denoiser", "Jpeg", "Randomization", "shipped_denoiser"},
    "dowse.estimators": {"Estimator"},
    "dowse.experiment.file": {"load_experiment"},
    "dowse.machine.cpu": {"ensure_fast_malloc"},
    "dowse.maths.geometry": {"Ball", "L2", "Linf", "make_ball"},
    "dowse.maths.sampling": {"biased", "sphere", "unit"},
    "dowse.models": {"load", "names"},
    "dowse.models.shapes": {"NAMES", "classifier", "shapes"},
    "dowse.preflight": {"preflight"},
    "dowse.report": {"compare_stores", "write_html", "write_text"},
    "dowse.running.engines": {"Engine", "make_engine"},
    "dowse.running.run_experiment": {"run_experiment"},
    "dowse.store": {"Row", "Store"},
    "dowse.targets": {"resolve_surrogate", "resolve_target"},
    "dowse.targets.export": {"export_onnx"},
}  # fmt: skip
