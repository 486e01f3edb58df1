/**
 * Writes a Qwen2-shaped model as a GGUF file, which llama.cpp reads, in float32 or with the weights
 * of products in blocks of 8-bit numbers (Q8_0).
 */
import { closeSync, openSync, writeSync } from 'node:fs'

/** A weight in the order of Hugging Face's file: rows of outputs. */
interface Weight {
  readonly shape: readonly number[]
  readonly data: Float32Array
}

interface GgufSizes {
  readonly hidden: number
  readonly intermediate: number
  readonly layers: number
  readonly heads: number
  readonly kvHeads: number
  readonly positions: number
  readonly vocabulary: number
}

type GgufFormat = 'f32' | 'q8_0'

export interface GgufModel {
  readonly sizes: GgufSizes
  /** By Hugging Face's names. */
  readonly weights: ReadonlyMap<string, Weight>
  readonly format: GgufFormat
}

/** Numbers of GGUF's types. */
const UINT32 = 4
const FLOAT32 = 6
const STRING = 8
const ARRAY = 9
const FORMATS: Readonly<Record<GgufFormat, number>> = { f32: 0, q8_0: 8 }

const ALIGNMENT = 32
const BLOCK = 32

const whole = (bytes: number, value: bigint): Buffer => {
  const buffer = Buffer.alloc(bytes)
  if (bytes === 4) buffer.writeUInt32LE(Number(value))
  else buffer.writeBigUInt64LE(value)
  return buffer
}

const text = (value: string): Buffer => {
  const bytes = Buffer.from(value)
  return Buffer.concat([whole(8, BigInt(bytes.length)), bytes])
}

const float = (value: number): Buffer => {
  const buffer = Buffer.alloc(4)
  buffer.writeFloatLE(value)
  return buffer
}

/** A key of the header with its value: text, a whole number, or a float. */
const field = (name: string, value: string | number | { readonly float: number }): Buffer => {
  if (typeof value === 'string') return Buffer.concat([text(name), whole(4, BigInt(STRING)), text(value)])
  if (typeof value === 'number') return Buffer.concat([text(name), whole(4, BigInt(UINT32)), whole(4, BigInt(value))])
  return Buffer.concat([text(name), whole(4, BigInt(FLOAT32)), float(value.float)])
}

const texts = (name: string, values: readonly string[]): Buffer =>
  Buffer.concat([
    ...[text(name), whole(4, BigInt(ARRAY)), whole(4, BigInt(STRING)), whole(8, BigInt(values.length))],
    ...values.map(text),
  ])

const LAYER_NAMES: Readonly<Record<string, string>> = {
  'input_layernorm.weight': 'attn_norm.weight',
  'self_attn.q_proj.weight': 'attn_q.weight',
  'self_attn.q_proj.bias': 'attn_q.bias',
  'self_attn.k_proj.weight': 'attn_k.weight',
  'self_attn.k_proj.bias': 'attn_k.bias',
  'self_attn.v_proj.weight': 'attn_v.weight',
  'self_attn.v_proj.bias': 'attn_v.bias',
  'self_attn.o_proj.weight': 'attn_output.weight',
  'post_attention_layernorm.weight': 'ffn_norm.weight',
  'mlp.gate_proj.weight': 'ffn_gate.weight',
  'mlp.up_proj.weight': 'ffn_up.weight',
  'mlp.down_proj.weight': 'ffn_down.weight',
}

/** The name of llama.cpp for a weight of Hugging Face's Qwen2. */
const ggufName = (name: string): string => {
  if (name === 'model.embed_tokens.weight') return 'token_embd.weight'
  if (name === 'model.norm.weight') return 'output_norm.weight'
  const [, layer, rest] = /^model\.layers\.(\d+)\.(.+)$/.exec(name) ?? []
  const known = rest === undefined ? undefined : LAYER_NAMES[rest]
  if (known === undefined) throw new Error(`${name} has no counterpart in llama.cpp's Qwen2`)
  return `blk.${layer}.${known}`
}

/** The bits of the nearest half-precision number, of a number from 0 to 65,504. */
const halfBits = (value: number): number => {
  if (value < 2 ** -14) return Math.round(value * 2 ** 24)
  const exponent = Math.floor(Math.log2(value))
  return ((exponent + 15) << 10) + Math.round((value / 2 ** exponent - 1) * 1024)
}

/** Blocks of 32 numbers: a half-precision scale and 32 signed bytes. */
const toQ8 = (data: Float32Array): Buffer => {
  const blocks = data.length / BLOCK
  const bytes = Buffer.alloc(blocks * (2 + BLOCK))
  for (let block = 0; block < blocks; block++) {
    const numbers = data.subarray(block * BLOCK, (block + 1) * BLOCK)
    const largest = numbers.reduce((most, x) => Math.max(most, Math.abs(x)), 0)
    const scale = largest / 127
    const at = block * (2 + BLOCK)
    bytes.writeUInt16LE(halfBits(scale), at)
    for (let i = 0; i < BLOCK; i++) bytes.writeInt8(scale === 0 ? 0 : Math.round(numbers[i]! / scale), at + 2 + i)
  }
  return bytes
}

const toF32 = (data: Float32Array): Buffer => Buffer.from(data.buffer, data.byteOffset, data.byteLength)

const padded = (bytes: Buffer): Buffer => {
  const missing = (ALIGNMENT - (bytes.length % ALIGNMENT)) % ALIGNMENT
  return missing === 0 ? bytes : Buffer.concat([bytes, Buffer.alloc(missing)])
}

/**
 * Writes the file. The vocabulary has placeholders for texts: programs exchange token ids.
 *
 * Errors   throws if a weight has no counterpart in llama.cpp.
 * Source   the GGUF specification, version 3, of the project ggml.
 */
export const writeGguf = (path: string, { sizes, weights, format }: GgufModel): void => {
  const fields = [
    field('general.architecture', 'qwen2'),
    field('general.alignment', ALIGNMENT),
    field('qwen2.context_length', sizes.positions),
    field('qwen2.embedding_length', sizes.hidden),
    field('qwen2.block_count', sizes.layers),
    field('qwen2.feed_forward_length', sizes.intermediate),
    field('qwen2.attention.head_count', sizes.heads),
    field('qwen2.attention.head_count_kv', sizes.kvHeads),
    field('qwen2.attention.layer_norm_rms_epsilon', { float: 1e-6 }),
    field('qwen2.rope.freq_base', { float: 10_000 }),
    field('qwen2.vocab_size', sizes.vocabulary),
    field('tokenizer.ggml.model', 'gpt2'),
    field('tokenizer.ggml.pre', 'default'),
    texts(
      'tokenizer.ggml.tokens',
      Array.from({ length: sizes.vocabulary }, (_, id) => `t${id}`),
    ),
    texts('tokenizer.ggml.merges', ['t 0']),
    field('tokenizer.ggml.bos_token_id', sizes.vocabulary - 1),
    field('tokenizer.ggml.eos_token_id', sizes.vocabulary - 1),
  ]
  const tensors = [...weights].map(([name, { shape, data }]) => {
    // Norms and biases stay in float32, as in llama.cpp's own files.
    const kind: GgufFormat = shape.length === 2 ? format : 'f32'
    return { name: ggufName(name), shape, kind, bytes: padded(kind === 'f32' ? toF32(data) : toQ8(data)) }
  })
  let offset = 0
  const entries = tensors.map(({ name, shape, kind, bytes }) => {
    const dimensions = [...shape].reverse().map((n) => whole(8, BigInt(n)))
    const entry = [
      ...[text(name), whole(4, BigInt(shape.length)), ...dimensions],
      ...[whole(4, BigInt(FORMATS[kind])), whole(8, BigInt(offset))],
    ]
    offset += bytes.length
    return Buffer.concat(entry)
  })
  const start = [Buffer.from('GGUF'), whole(4, 3n), whole(8, BigInt(tensors.length)), whole(8, BigInt(fields.length))]
  const file = openSync(path, 'w')
  try {
    writeSync(file, padded(Buffer.concat([...start, ...fields, ...entries])))
    for (const { bytes } of tensors) for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at)
  } finally {
    closeSync(file)
  }
}
