"""Our zlib stream: any reader gets the bytes back, whatever they are."""

from __future__ import annotations

import heapq
import zlib
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventvox.deflate import MAX_BITS, SYMBOLS, code_lengths, compress

READERS = {
    "zlib": lambda data, size: zlib.decompress(data),
    "isal": lambda data, size: import_module("isal.isal_zlib").decompress(data),
    "zlib-ng": lambda data, size: import_module("zlib_ng.zlib_ng").decompress(data),
    "libdeflate": lambda data, size: bytes(import_module("deflate").zlib_decompress(data, size)),
}


def chunk_of(rng, size, share, values=256):
    """Return bytes of which this share is not 0."""
    return (rng.integers(1, values, size) * (rng.random(size) < share)).astype(np.uint8)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.5, 1.0])
def test_every_reader_gets_the_bytes_back(reader, share):
    rng = np.random.default_rng(7)
    for size in (2, 4, 10, 30, 1000, 2 * 65536 - 2, 2 * 65536, 2 * 65536 + 2, 655360):
        chunk = chunk_of(rng, size, share)
        assert READERS[reader](compress(chunk), size) == chunk.tobytes()


@given(st.lists(st.tuples(st.sampled_from([0, 1, 255, 7, 200]), st.integers(1, 700)), max_size=40))
def test_runs_of_any_length_come_back(runs):
    data = b"".join(bytes([value]) * length for value, length in runs)
    data += bytes(len(data) % 2)
    assert zlib.decompress(compress(np.frombuffer(data, np.uint8))) == data


@given(st.binary(max_size=300))
def test_any_bytes_come_back(data):
    data += bytes(len(data) % 2)
    assert zlib.decompress(compress(np.frombuffer(data, np.uint8))) == data


def test_noise_grows_by_less_than_a_hundredth():
    noise = np.random.default_rng(1).integers(0, 256, 655360).astype(np.uint8)
    assert len(compress(noise)) < 1.01 * noise.size


def test_nothing_but_zeros_takes_a_thousandth():
    assert len(compress(np.zeros(655360, np.uint8))) < 1400


def test_each_half_has_codes_of_its_own():
    # values in the low bytes alone: one code for both halves would spend bits of the high ones on them
    chunk = np.zeros(20000, np.uint8)
    chunk[:10000] = np.random.default_rng(2).integers(0, 256, 10000)
    assert len(compress(chunk)) < 10000 + 500


def huffman_bits(counts):
    """Return how many bits the best prefix code of any length needs."""
    heap, total = [count for count in counts if count], 0
    heapq.heapify(heap)
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        total += both
        heapq.heappush(heap, both)
    return total


@given(st.lists(st.integers(0, 65536), min_size=2, max_size=SYMBOLS).filter(lambda counts: sum(map(bool, counts)) > 1))
def test_code_lengths_are_complete_and_as_short_as_they_can_be(counts):
    lengths = np.zeros(len(counts), np.int64)
    code_lengths(np.array(counts, np.int64), MAX_BITS, lengths)
    used = lengths[lengths > 0].tolist()
    assert [bool(length) for length in lengths] == [bool(count) for count in counts]
    assert sum(2.0**-length for length in used) == 1 and max(used) <= MAX_BITS
    best = huffman_bits(counts)
    spent = int(np.dot(np.array(counts, np.int64), lengths))
    assert spent == best or (max(used) == MAX_BITS and best < spent < 1.05 * best)


def test_counts_that_ask_for_longer_words_get_the_longest_there_is():
    fibonacci = [1, 1]
    while len(fibonacci) < 24:
        fibonacci.append(sum(fibonacci[-2:]))
    lengths = np.zeros(24, np.int64)
    code_lengths(np.array(fibonacci, np.int64), MAX_BITS, lengths)
    assert lengths.max() == MAX_BITS and sum(2.0 ** -int(length) for length in lengths) == 1
    # a stream with such counts is read
    data = np.repeat(np.arange(24, dtype=np.uint8), np.minimum(fibonacci, 20000))
    data = np.random.default_rng(3).permutation(data)[: data.size // 2 * 2]
    assert zlib.decompress(compress(data)) == data.tobytes()
