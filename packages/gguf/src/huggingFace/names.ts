/** The names of tensors in GGUF and in Hugging Face's files, and the layouts that differ. */
import type { GgufEntry } from '../header.js'
import type { GgufArray } from '../openGguf.js'

/** The architectures that have a counterpart in Hugging Face's files, by `general.architecture`. */
export type GgufArchitecture = 'llama' | 'qwen2' | 'qwen3' | 'gemma2' | 'gemma3' | 'smollm3' | 'olmo2' | 'gpt2'

/** The sizes of heads, for the order of rows. */
export interface HeadSizes {
  readonly heads: number
  readonly keyValueHeads: number
}

/** Names of parts of a layer: GGUF -> Hugging Face. */
type Names = Readonly<Record<string, string>>

const PROJECTIONS: Names = {
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_output: 'self_attn.o_proj',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
}

const HEAD_NORMS: Names = { attn_q_norm: 'self_attn.q_norm', attn_k_norm: 'self_attn.k_norm' }

const LLAMA: Names = { ...PROJECTIONS, attn_norm: 'input_layernorm', ffn_norm: 'post_attention_layernorm' }

const GEMMA: Names = {
  ...PROJECTIONS,
  attn_norm: 'input_layernorm',
  post_attention_norm: 'post_attention_layernorm',
  ffn_norm: 'pre_feedforward_layernorm',
  post_ffw_norm: 'post_feedforward_layernorm',
}

/** Names outside of layers. */
const OUTSIDE: Names = { token_embd: 'model.embed_tokens', output_norm: 'model.norm', output: 'lm_head' }

interface Family {
  readonly layer: Names
  readonly outside: Names
  readonly layerName: string
  /**
   * `halves` if the first and the second half of a head's rows turn together, as in Hugging Face's
   * files; `pairs` if neighbours do, as llama.cpp reorders them for some architectures.
   */
  readonly rows: 'halves' | 'pairs'
  /** Added to the weights of norms in GGUF: 1 for Gemma, whose own weights are around 0. */
  readonly normOffset: 0 | 1
  /** `in-out` if Hugging Face's matrices are transposed. */
  readonly layout: 'out-in' | 'in-out'
}

const familyOf = (layer: Names, given: Partial<Family> = {}): Family => ({
  layer,
  outside: OUTSIDE,
  layerName: 'model.layers',
  rows: 'halves',
  normOffset: 0,
  layout: 'out-in',
  ...given,
})

const FAMILIES: Readonly<Record<GgufArchitecture, Family>> = {
  llama: familyOf(LLAMA, { rows: 'pairs' }),
  smollm3: familyOf(LLAMA, { rows: 'pairs' }),
  qwen2: familyOf(LLAMA),
  qwen3: familyOf({ ...LLAMA, ...HEAD_NORMS }),
  gemma2: familyOf(GEMMA, { normOffset: 1 }),
  gemma3: familyOf({ ...GEMMA, ...HEAD_NORMS }, { normOffset: 1 }),
  olmo2: familyOf({
    ...PROJECTIONS,
    ...HEAD_NORMS,
    post_attention_norm: 'post_attention_layernorm',
    post_ffw_norm: 'post_feedforward_layernorm',
  }),
  gpt2: familyOf(
    {
      attn_norm: 'ln_1',
      attn_qkv: 'attn.c_attn',
      attn_output: 'attn.c_proj',
      ffn_norm: 'ln_2',
      ffn_up: 'mlp.c_fc',
      ffn_down: 'mlp.c_proj',
    },
    {
      outside: {
        token_embd: 'transformer.wte',
        position_embd: 'transformer.wpe',
        output_norm: 'transformer.ln_f',
        output: 'lm_head',
      },
      layerName: 'transformer.h',
      layout: 'in-out',
    },
  ),
}

/** All architectures that have a counterpart. */
export const GGUF_ARCHITECTURES = Object.keys(FAMILIES) as readonly GgufArchitecture[] // the keys of the record above

/** Frequencies of positions, which belong to the config of a model. */
export const FREQUENCIES = 'rope_freqs.weight'

const own = (names: Names, name: string): string | undefined => (Object.hasOwn(names, name) ? names[name] : undefined)

/**
 * Returns the name of a tensor in Hugging Face's files, or undefined for a tensor that the
 * architecture does not have.
 */
const huggingFaceName = (architecture: GgufArchitecture, name: string): string | undefined => {
  const { layer, outside, layerName } = FAMILIES[architecture]
  const [, number, inLayer, top, kind] = /^(?:blk\.(\d+)\.(\w+)|(\w+))\.(weight|bias)$/.exec(name) ?? []
  const known = top === undefined ? own(layer, inLayer ?? '') : own(outside, top)
  if (known === undefined) return undefined
  return top === undefined ? `${layerName}.${number}.${known}.${kind}` : `${known}.${kind}`
}

type Change = (array: GgufArray) => GgufArray

/** Puts the rows of each head from pairs back into halves. */
const inHalves =
  (heads: number): Change =>
  ({ shape, data }) => {
    const [rows = 1] = shape
    const [width, half] = [data.length / rows, rows / heads / 2]
    const result = new Float32Array(data.length)
    for (let row = 0; row < rows; row++) {
      const head = Math.floor(row / (2 * half))
      const place = row - 2 * half * head
      const to = 2 * half * head + (place % 2) * half + (place >> 1)
      result.set(data.subarray(row * width, (row + 1) * width), to * width)
    }
    return { shape, data: result }
  }

const around0: Change = ({ shape, data }) => ({ shape, data: data.map((x) => x - 1) })

const transposed: Change = ({ shape, data }) => {
  const [rows = 1, columns = 1] = shape
  const result = new Float32Array(data.length)
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) result[column * rows + row] = data[row * columns + column]!
  }
  return { shape: [columns, rows], data: result }
}

/** Returns how a tensor becomes that of Hugging Face's files, or undefined for an equal one. */
const changeOf = (architecture: GgufArchitecture, name: string, { heads, keyValueHeads }: HeadSizes) => {
  const { rows, normOffset, layout } = FAMILIES[architecture]
  const [, part, kind] = /^blk\.\d+\.(\w+)\.(weight|bias)$/.exec(name) ?? []
  if (rows === 'pairs' && part === 'attn_q') return inHalves(heads)
  if (rows === 'pairs' && part === 'attn_k') return inHalves(keyValueHeads)
  if (normOffset === 1 && name.endsWith('norm.weight')) return around0
  const isMatrix = kind === 'weight' && part !== undefined && !part.endsWith('norm')
  return layout === 'in-out' && isMatrix ? transposed : undefined
}

/** A tensor in Hugging Face's layout. */
export interface NamedTensor {
  /** Its name in the GGUF file. */
  readonly from: string
  readonly shape: readonly number[]
  /** Undefined if the layouts are equal. */
  readonly change: Change | undefined
}

/**
 * Returns the tensors of a model by Hugging Face's names, and the names that the architecture does
 * not have.
 */
export const namedTensors = (
  architecture: GgufArchitecture,
  entries: ReadonlyMap<string, GgufEntry>,
  heads: HeadSizes,
): { readonly tensors: ReadonlyMap<string, NamedTensor>; readonly unknown: readonly string[] } => {
  const tensors = new Map<string, NamedTensor>()
  const unknown: string[] = []
  for (const [from, { shape }] of entries) {
    if (from === FREQUENCIES) continue
    const name = huggingFaceName(architecture, from)
    const change = changeOf(architecture, from, heads)
    if (name === undefined) unknown.push(from)
    else tensors.set(name, { from, shape: change === transposed ? shape.toReversed() : shape, change })
  }
  return { tensors, unknown }
}
