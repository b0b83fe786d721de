"""Answers as tensors, and lakes in the workers of a DataLoader.

`TORCH=yes scripts/test-python.sh` installs PyTorch for these tests.
"""

import unittest

import steplake
from lakes import LakeCase

try:
    import torch
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info
except ImportError:
    torch, IterableDataset = None, object

# The types of Arrow that a tensor can hold.
NUMBERS = [f"{sign}Int{bits}" for sign in ["", "U"] for bits in [8, 16, 32, 64]]
NUMBERS += ["Float32", "Float64", "Boolean"]
STEPS = "SELECT episode_id, step_index, reward_Cost FROM steps WHERE reward_Cost IS NOT NULL"

# Ends a test whose worker does not answer.
SECONDS_MAX = 60


class Steps(IterableDataset):
    """The steps of a lake; each worker asks for episodes of its own."""

    def __init__(self, lake):
        self.lake = lake

    def __iter__(self):
        worker = get_worker_info()
        share = f"{STEPS} AND episode_id % ? = ?"
        yield from self.lake.sql(share, [worker.num_workers, worker.id]).fetchall()


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Tensors(LakeCase):
    def tensor(self, expression, rows=5, where="TRUE"):
        """One column over the numbers from 0 on, as a tensor and as PyArrow has it."""
        text = f"SELECT {expression} AS x FROM range({rows}) WHERE {where} ORDER BY value"
        answer = self.lake.sql(text)
        tensors = answer.torch()
        self.assertEqual(list(tensors), ["x"])
        return tensors["x"], answer.to_arrow_table()["x"].to_pylist()

    def assert_refused(self, expression, message):
        with self.assertRaisesRegex(steplake.UsageError, message):
            self.tensor(expression)

    def test_numbers_of_every_type(self):
        for kind in NUMBERS:
            tensor, values = self.tensor(f"arrow_cast(value, '{kind}')")
            wanted = {"Boolean": "bool"}.get(kind, kind.lower())
            self.assertEqual(tensor.dtype, getattr(torch, wanted))
            self.assertEqual((tensor.tolist(), tensor.shape), (values, (5,)), kind)

    def test_the_ends_of_the_ranges(self):
        largest, _ = self.tensor("arrow_cast('18446744073709551615', 'UInt64')", rows=1)
        self.assertEqual(largest.tolist(), [2**64 - 1])
        smallest, values = self.tensor("arrow_cast('-9223372036854775808', 'Int64')", rows=1)
        self.assertEqual((smallest.tolist(), values), ([-(2**63)], [-(2**63)]))
        odd, _ = self.tensor("CASE value WHEN 0 THEN 'inf'::DOUBLE ELSE 'nan'::DOUBLE END", rows=2)
        self.assertEqual(odd[0].item(), float("inf"))
        self.assertTrue(odd[1].isnan())

    def test_lists_of_one_length_have_two_dimensions(self):
        for kind in ["List(Int32)", "FixedSizeList(2, Int32)"]:
            with self.subTest(kind):
                tensor, values = self.tensor(f"arrow_cast([value, -value], '{kind}')")
                self.assertEqual((tensor.dtype, tensor.shape), (torch.int32, (5, 2)))
                self.assertEqual(tensor.tolist(), values)
        answer = self.lake.sql("SELECT Bits, Cost FROM observations ORDER BY state_id")
        tensors, table = answer.torch(), answer.to_arrow_table()
        for name in ["Bits", "Cost"]:
            self.assertEqual(tensors[name].tolist(), table[name].to_pylist())
        flags, values = self.tensor("[value > 1, value > 2]")
        self.assertEqual((flags.dtype, flags.tolist()), (torch.bool, values))

    def test_many_rows_come_as_one_tensor(self):
        for expression in ["value", "[value, value + 1]", "value % 3 = 0"]:
            tensor, values = self.tensor(expression, rows=100_000, where="value % 7 <> 0")
            self.assertEqual(tensor.tolist(), values)

    def test_no_rows(self):
        self.assertEqual(self.tensor("value", where="FALSE")[0].shape, (0,))
        fixed = "arrow_cast([value, value], 'FixedSizeList(2, Int64)')"
        self.assertEqual(self.tensor(fixed, where="FALSE")[0].shape, (0, 2))

    def test_a_tensor_can_be_written_to(self):
        tensor, values = self.tensor("value")
        tensor += 1
        self.assertEqual(tensor.tolist(), [value + 1 for value in values])
        self.assertEqual(self.tensor("value")[0].tolist(), values)

    def test_what_a_tensor_cannot_hold(self):
        for expression, kind in [
            ("value::VARCHAR", "Utf8"),
            ("arrow_cast('a', 'Dictionary(Int32, Utf8)')", "Dictionary"),
            ("arrow_cast('a', 'Binary')", "Binary"),
            ("value::DECIMAL(10, 2)", "Decimal"),
            ("arrow_cast(value, 'Timestamp(Microsecond, None)')", "Timestamp"),
            ("['a', 'b']", "Utf8"),
        ]:
            self.assert_refused(expression, f"the column `x` has the type {kind}.*leave it out")
        with self.assertRaisesRegex(steplake.UsageError, "`state_id` has the type FixedSizeBinary"):
            self.lake.sql("SELECT state_id FROM steps").torch()

    def test_nulls(self):
        for expression in [
            "CASE WHEN value > 1 THEN value END",
            "CASE WHEN value > 1 THEN TRUE END",
            "CASE WHEN value > 1 THEN [value, value] END",
            "CASE WHEN value > 1 THEN arrow_cast([value, value], 'FixedSizeList(2, Int64)') END",
        ]:
            self.assert_refused(expression, r"`x` has nulls \(2 of 5 rows\).*filter them out")
        self.assert_refused("[value, NULL]", "`x` has nulls")
        whole, _ = self.tensor("coalesce(CASE WHEN value > 1 THEN value END, -1)")
        self.assertEqual(whole.tolist(), [-1, -1, 2, 3, 4])

    def test_lists_of_several_lengths(self):
        lists = "CASE WHEN value > 1 THEN [value] ELSE [value, value] END"
        self.assert_refused(lists, "`x` has lists of 2 and of 1 values")


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Loaders(LakeCase):
    def test_workers_of_a_data_loader_ask_a_lake(self):
        # The engine of this process runs when the workers are made.
        wanted = sorted(self.lake.sql(STEPS).fetchall())
        self.assertEqual(len({episode for episode, _, _ in wanted}), 3)
        for context in ["fork", "spawn"]:
            with self.subTest(context):
                loader = DataLoader(
                    Steps(self.lake),
                    batch_size=4,
                    num_workers=2,
                    multiprocessing_context=context,
                    timeout=SECONDS_MAX,
                )
                batches = [torch.stack(list(batch), dim=1) for batch in loader]
                rows = sorted(map(tuple, torch.cat(batches).tolist()))
                self.assertEqual(rows, wanted)
        self.assertEqual(sorted(self.lake.sql(STEPS).fetchall()), wanted)


if __name__ == "__main__":
    unittest.main()
