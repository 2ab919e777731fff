"""What mlserver runs: the network of net.py, with a line in a log for the rows of every request that reached it."""

from pathlib import Path

import torch
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse
from net import make_net


class Runtime(MLModel):
    async def load(self) -> bool:
        torch.set_num_threads(1)
        extra = self.settings.parameters.extra
        self.net, self.log = make_net(extra["seed"]), Path(extra["log"])
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        points = torch.from_numpy(NumpyCodec.decode_input(payload.inputs[0]).copy())
        with torch.no_grad():
            scores = self.net(points)
        with self.log.open("a") as log:
            log.write(f"{len(points)}\n")
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("scores", scores.numpy())])
