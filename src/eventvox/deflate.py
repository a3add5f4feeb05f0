"""A zlib stream for event chunks: runs of one byte and Huffman codes, nothing else, compiled.

Event voxels are sparse noise: long runs of zeros and ones of 255, between them values that follow no earlier ones. Looking for repeats further back,
which is where general encoders spend their time, makes such data larger, not smaller (measured: benchmarks/events.py). All arithmetic is in integers
and no library takes part, so the same values give the same bytes on every machine. Any zlib reads the result.
Source: RFC 1950 and 1951.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventvox.compiled import compiled, load_eight, zero_bits

BLOCK_BYTES = 1 << 16
"""Input of one block with codes of its own: one byte plane of a full chunk's bin."""
MAX_BITS, MAX_META_BITS = 15, 7
END = 256
"""Symbol that ends a block. Below it stand the literal bytes, above it the lengths of runs."""
SYMBOLS, META_SYMBOLS = 286, 19
META_ORDER = np.array([16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15], np.int64)
HEADER = 0x0178
"""The two bytes of a zlib header, least significant first: deflate, 32 KiB window, fastest."""
SHORTEST_RUN = 4
"""Shorter ones are cheaper as literals: after the first byte of a run it costs a length, its extra bits and a distance."""
ADLER = 65521
_SEVEN_BITS, _ONES = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x0101010101010101)


def _length_tables() -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each length 0 to 258, its symbol, the number of its extra bits and their value."""
    symbols, bits, values = (np.zeros(259, np.int64) for _ in range(3))
    low = 3
    for code in range(28):
        extra = max(0, code // 4 - 1)
        for length in range(low, min(low + (1 << extra), 258)):
            symbols[length], bits[length], values[length] = 257 + code, extra, length - low
        low += 1 << extra
    symbols[258] = 285
    return symbols, bits, values


LENGTH_SYMBOL, LENGTH_BITS, LENGTH_VALUE = _length_tables()


@compiled
def code_lengths(counts: Any, limit: Any, lengths: Any) -> Any:
    """Write the lengths of a Huffman code of at most `limit` bits for symbols that occur `counts` times; 0 for those that do not."""
    lengths[:] = 0
    used = 0
    keys = np.empty(counts.shape[0], np.int64)
    for symbol in range(counts.shape[0]):
        if counts[symbol]:
            keys[used] = counts[symbol] * 512 + symbol
            used += 1
    if used < 2:
        # a code of one word is not complete: a second word that never occurs makes it so
        lengths[keys[0] % 512 if used else 0] = 1
        lengths[1 if used and keys[0] % 512 == 0 else 0] = 1
        return
    keys = np.sort(keys[:used])
    weight, parent = np.empty(2 * used, np.int64), np.empty(2 * used, np.int64)
    for i in range(used):
        weight[i] = keys[i] // 512
    leaf, inner = 0, used
    for node in range(used, 2 * used - 1):
        total = 0
        for _ in range(2):
            if leaf < used and (inner >= node or weight[leaf] <= weight[inner]):
                chosen = leaf
                leaf += 1
            else:
                chosen = inner
                inner += 1
            parent[chosen] = node
            total += weight[chosen]
        weight[node] = total
    depth = np.zeros(2 * used, np.int64)
    sizes = np.zeros(limit + 1, np.int64)
    for node in range(2 * used - 3, -1, -1):
        depth[node] = depth[parent[node]] + 1
        if node < used:
            sizes[min(depth[node], limit)] += 1
    # Words cut to the limit take more room than there is: give it back, a word at a time, by making a shorter one longer.
    room = 0
    for bits in range(1, limit + 1):
        room += sizes[bits] << (limit - bits)
    while room > 1 << limit:
        sizes[limit] -= 1
        for bits in range(limit - 1, 0, -1):
            if sizes[bits]:
                sizes[bits] -= 1
                sizes[bits + 1] += 2
                break
        room -= 1
    i = 0
    for bits in range(limit, 0, -1):
        for _ in range(sizes[bits]):
            lengths[keys[i] % 512] = bits
            i += 1


@compiled
def code_words(lengths: Any, words: Any) -> Any:
    """Write the canonical code words of these lengths, their first bit lowest, as the stream takes them."""
    sizes = np.zeros(MAX_BITS + 2, np.int64)
    for bits in lengths:
        sizes[bits + 1] += bits > 0
    following = np.zeros(MAX_BITS + 2, np.int64)
    for bits in range(2, MAX_BITS + 1):
        following[bits] = (following[bits - 1] + sizes[bits]) << 1
    for symbol in range(lengths.shape[0]):
        word, turned = following[lengths[symbol]], 0
        for _ in range(lengths[symbol]):
            turned = turned << 1 | (word & 1)
            word >>= 1
        words[symbol] = turned
        following[lengths[symbol]] += 1


@compiled
def _equal_neighbours(data: Any, i: Any) -> Any:
    """Return bit 7 of each of eight bytes set where data[i + k] equals data[i + k + 1]."""
    differ = load_eight(data, i) ^ load_eight(data, i + 1)
    return ~(((differ & _SEVEN_BITS) + _SEVEN_BITS) | differ | _SEVEN_BITS)


@compiled
def _run_end(data: Any, i: Any, end: Any) -> Any:
    """Return the first place after `i` whose byte differs from data[i], or `end`."""
    pattern = np.uint64(data[i]) * _ONES
    after = i + 1
    while after + 8 <= end:
        differ = load_eight(data, after) ^ pattern
        if differ:
            return after + np.int64(zero_bits(differ) >> np.uint64(3))
        after += 8
    while after < end and data[after] == data[i]:
        after += 1
    return after


@compiled
def _tokenize(data: Any, start: Any, end: Any, tokens: Any, counts: Any, sums: Any) -> Any:
    """Write data[start:end] as literals (0 to 255) and runs (256 + length), count their symbols, and carry on the two sums of Adler-32.

    Returns how many tokens.
    """
    # Two counters a symbol: one alone would wait for its own last increment.
    counts[:] = 0
    counts[0, END] = 1
    # A block is too short for the sums to leave 64 bits.
    first, second = sums[0], sums[1]
    written, i = 0, start
    while i < end:
        if i + 9 <= end:
            equal = _equal_neighbours(data, i)
            equal &= equal >> np.uint64(8)
            equal &= equal >> np.uint64(16)  # four pairs of equal neighbours: five equal bytes
            if not equal:
                for k in range(5):
                    value = data[i + k]
                    tokens[written + k] = value
                    counts[k & 1, value] += 1
                    first += value
                    second += first
                written += 5
                i += 5
                continue
            literals = np.int64(zero_bits(equal) >> np.uint64(3))
        else:
            literals = 1
        for k in range(literals):
            value = data[i + k]
            tokens[written + k] = value
            counts[k & 1, value] += 1
            first += value
            second += first
        written += literals
        i += literals
        if i >= end:
            break
        value = data[i]
        after = _run_end(data, i, end)
        run = np.int64(after - i)
        second += run * first + np.int64(value) * (run * (run + 1) >> 1)
        first += run * value
        tokens[written] = value
        counts[0, value] += 1
        written += 1
        left = run - 1
        while left >= SHORTEST_RUN:
            length = min(left, 258)
            tokens[written] = 256 + length
            counts[1, LENGTH_SYMBOL[length]] += 1
            written += 1
            left -= length
        for _ in range(left):
            tokens[written] = value
            counts[0, value] += 1
            written += 1
        i = after
    sums[0], sums[1] = first % ADLER, second % ADLER
    return written


@compiled
def _put(out: Any, at: Any, held: Any, filled: Any, value: Any, bits: Any) -> Any:
    """Append bits to the stream; whole words of 32 go to `out`. Returns the new at, held and filled."""
    held |= np.uint64(value) << np.uint64(filled)
    filled += bits
    if filled >= 32:
        out[at] = np.uint32(held & np.uint64(0xFFFFFFFF))
        at += 1
        held >>= np.uint64(32)
        filled -= 32
    return at, held, filled


@compiled
def _describe_lengths(lengths: Any, symbols: Any, meta: Any, extra: Any) -> Any:
    """Write the code lengths of a block in the alphabet of code lengths: 16 repeats the last one, 17 and 18 are zeros. Returns how many symbols."""
    written, i = 0, 0
    while i < symbols:
        value, run = lengths[i], 1
        while i + run < symbols and lengths[i + run] == value:
            run += 1
        i += run
        if value:
            meta[written] = value
            written += 1
            run -= 1
        while run:
            if value and run >= 3:
                step = min(run, 6)
                meta[written], extra[written] = 16, step - 3
            elif not value and run >= 11:
                step = min(run, 138)
                meta[written], extra[written] = 18, step - 11
            elif not value and run >= 3:
                step = run
                meta[written], extra[written] = 17, step - 3
            else:
                step = 1
                meta[written] = value
            written += 1
            run -= step
    return written


@compiled
def _write_header(out: Any, at: Any, held: Any, filled: Any, lengths: Any, last: Any) -> Any:
    """Write a block's header: the code lengths of literals and runs, and of two distances, of which only the first, 1, is used."""
    literals = 257
    for symbol in range(257, SYMBOLS):
        if lengths[symbol]:
            literals = symbol + 1
    both = np.zeros(SYMBOLS + 2, np.int64)
    both[:literals] = lengths[:literals]
    both[literals : literals + 2] = 1
    meta, extra = np.zeros(SYMBOLS + 2, np.int64), np.zeros(SYMBOLS + 2, np.int64)
    written = _describe_lengths(both, literals + 2, meta, extra)
    counts, meta_lengths, words = np.zeros(META_SYMBOLS, np.int64), np.zeros(META_SYMBOLS, np.int64), np.zeros(META_SYMBOLS, np.int64)
    for i in range(written):
        counts[meta[i]] += 1
    code_lengths(counts, MAX_META_BITS, meta_lengths)
    code_words(meta_lengths, words)
    sent = META_SYMBOLS
    while sent > 4 and not meta_lengths[META_ORDER[sent - 1]]:
        sent -= 1
    at, held, filled = _put(out, at, held, filled, last | 2 << 1 | (literals - 257) << 3 | 1 << 8 | (sent - 4) << 13, 17)
    for i in range(sent):
        at, held, filled = _put(out, at, held, filled, meta_lengths[META_ORDER[i]], 3)
    for i in range(written):
        symbol = meta[i]
        bits = meta_lengths[symbol]
        at, held, filled = _put(out, at, held, filled, words[symbol] | extra[i] << bits, bits + (2, 3, 7)[symbol - 16] if symbol >= 16 else bits)
    return at, held, filled


@compiled
def _write_block(out: Any, at: Any, held: Any, filled: Any, tokens: Any, written: Any, counts: Any, last: Any) -> Any:
    lengths, words = np.zeros(SYMBOLS, np.int64), np.zeros(SYMBOLS, np.int64)
    code_lengths(counts, MAX_BITS, lengths)
    code_words(lengths, words)
    at, held, filled = _write_header(out, at, held, filled, lengths, last)
    # for each token its bits and how many: a run is its length's word, extra bits, and one bit 0, the word of distance 1
    bits_of, count_of = np.zeros(515, np.uint64), np.zeros(515, np.uint64)
    for literal in range(256):
        bits_of[literal], count_of[literal] = words[literal], lengths[literal]
    for length in range(3, 259):
        symbol = LENGTH_SYMBOL[length]
        bits_of[256 + length] = words[symbol] | LENGTH_VALUE[length] << lengths[symbol]
        count_of[256 + length] = lengths[symbol] + LENGTH_BITS[length] + 1
    wide = np.uint64(filled)
    for i in range(written):
        token = tokens[i]
        held |= bits_of[token] << wide
        wide += count_of[token]
        if wide >= np.uint64(32):
            out[at] = np.uint32(held & np.uint64(0xFFFFFFFF))
            at += 1
            held >>= np.uint64(32)
            wide -= np.uint64(32)
    return _put(out, at, held, np.int64(wide), words[END], lengths[END])


@compiled
def _compress(data: Any, boundary: Any, out: Any, tokens: Any) -> Any:
    counts = np.zeros((2, SYMBOLS), np.int64)
    sums = np.array([1, 0], np.int64)
    at, held, filled = 0, np.uint64(HEADER), np.int64(16)
    start, size = 0, data.shape[0]
    while True:
        end = min(start + BLOCK_BYTES, boundary if start < boundary else size)
        written = _tokenize(data, start, end, tokens, counts, sums)
        at, held, filled = _write_block(out, at, held, filled, tokens, written, counts[0] + counts[1], np.int64(end == size))
        start = end
        if start == size:
            break
    filled = (filled + 7) // 8 * 8
    for shift in (24, 16, 8, 0):
        total = sums[1] << 16 | sums[0]
        at, held, filled = _put(out, at, held, filled, total >> shift & 255, 8)
    out[at] = np.uint32(held)
    return at * 4 + filled // 8


def compress(chunk: NDArray[np.uint8]) -> bytes:
    """Return a chunk as a zlib stream.

    chunk : uint8, one-dimensional, its low bytes in its first half, the high ones in the second, as HDF5's shuffle filter lays two-byte values.
    """
    # A literal takes at most 15 bits, a block's header less than 400 bytes.
    blocks = chunk.size // BLOCK_BYTES + 2
    out = np.empty(chunk.size // 2 + blocks * 128 + 16, np.uint32)
    tokens = np.empty(min(chunk.size, BLOCK_BYTES), np.uint16)
    size = _compress(chunk, chunk.size // 2, out, tokens)
    return out.view(np.uint8)[:size].tobytes()
