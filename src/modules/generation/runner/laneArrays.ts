/** Copies of keys and values between the arrays of a lane and blocks of a few positions. */

/** The shape of a lane's array: rows of `heads` x `places` x `width` numbers. */
export interface LaneShape {
  readonly heads: number
  readonly places: number
  readonly width: number
}

/** Writes blocks, `[heads, length, width]` each, behind position 0 of a row, which becomes zero. */
export const writeRow = (
  into: Float32Array,
  row: number,
  {
    blocks,
    heads,
    places,
    width,
  }: LaneShape & { readonly blocks: readonly { readonly from: Float32Array; readonly length: number }[] },
): void => {
  // Position 0 is zero: see `decodeAttention`. A removed row may have left numbers there.
  for (let head = 0; head < heads; head++) {
    const start = (row * heads + head) * places * width
    into.fill(0, start, start + width)
  }
  let place = 1
  for (const { from, length } of blocks) {
    for (let head = 0; head < heads; head++) {
      const start = ((row * heads + head) * places + place) * width
      into.set(from.subarray(head * length * width, (head + 1) * length * width), start)
    }
    place += length
  }
}

/** Reads the tokens `from` to `to` of a row as a block. */
export const readRow = (
  part: Float32Array,
  array: Float32Array,
  { row, from, to, heads, places, width }: LaneShape & Readonly<Record<'row' | 'from' | 'to', number>>,
): void => {
  for (let head = 0; head < heads; head++) {
    const start = (row * heads + head) * places + 1
    part.set(array.subarray((start + from) * width, (start + to) * width), head * (to - from) * width)
  }
}

/** The places of one token for each row: in `added`, and behind the tokens of its row. */
export interface AddedTokens extends LaneShape {
  readonly rows: readonly number[]
  /** The beginning of each token in `added`, `[heads, width]`. */
  readonly begins: readonly number[]
  /** Number of tokens of every row of the lane. */
  readonly lengths: readonly number[]
}

/** Writes one token to each of some rows, for each layer of each step: it makes no values. */
export const writeTokens = (
  into: Float32Array,
  added: Float32Array,
  { rows, begins, lengths, heads, places, width }: AddedTokens,
): void => {
  for (let n = 0; n < rows.length; n++) {
    const row = rows[n]!
    for (let head = 0; head < heads; head++) {
      const to = ((row * heads + head) * places + 1 + lengths[row]!) * width
      const from = begins[n]! + head * width
      for (let k = 0; k < width; k++) into[to + k] = added[from + k]!
    }
  }
}
