"""The contestants of the benchmark; none of these modules imports a library by itself."""

import columnar
import huggingface
import lake_dataset
import rowwise
from contestant import Tensor, TensorOneThread

ALL = [
    Tensor,
    TensorOneThread,
    lake_dataset.Steplake,
    lake_dataset.SteplakeStreamed,
    columnar.Dataset,
    columnar.Table,
    columnar.Polars,
    columnar.Lance,
    huggingface.MapStyle,
    huggingface.MapStyleArrow,
    huggingface.Streaming,
    rowwise.MosaicML,
    rowwise.MosaicMLIndexed,
    rowwise.LitData,
]
BY_NAME = {one.name: one for one in ALL}
