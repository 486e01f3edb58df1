/** The parameters of a decoder: named tensors in an immutable record, with Hugging Face's names. */
import * as tf from '@tensorflow/tfjs'
import { child, type Key, normals } from '../../core/key.js'
import type { DecoderConfig } from './config.js'

/** Name of Hugging Face -> tensor. Never changed in place: an update makes a new record. */
export type Params = Readonly<Record<string, tf.Tensor>>

/** Names and shapes of all parameters, in the order in which Transformers lists them. Linear weights are `[out, in]`. */
export const parameterShapes = (config: DecoderConfig): ReadonlyMap<string, readonly number[]> => {
  const { hiddenSize: d, intermediateSize: f, headSize, projectionBias } = config
  const [queryWidth, keyWidth] = [config.heads * headSize, config.keyValueHeads * headSize]
  const shapes = new Map<string, readonly number[]>([['model.embed_tokens.weight', [config.vocabularySize, d]]])
  for (let i = 0; i < config.layers; i++) {
    const layer = `model.layers.${i}`
    for (const [name, width] of [
      ['q', queryWidth],
      ['k', keyWidth],
      ['v', keyWidth],
    ] as const) {
      shapes.set(`${layer}.self_attn.${name}_proj.weight`, [width, d])
      if (projectionBias) shapes.set(`${layer}.self_attn.${name}_proj.bias`, [width])
    }
    shapes.set(`${layer}.self_attn.o_proj.weight`, [d, queryWidth])
    shapes.set(`${layer}.mlp.gate_proj.weight`, [f, d])
    shapes.set(`${layer}.mlp.up_proj.weight`, [f, d])
    shapes.set(`${layer}.mlp.down_proj.weight`, [d, f])
    shapes.set(`${layer}.input_layernorm.weight`, [d])
    shapes.set(`${layer}.post_attention_layernorm.weight`, [d])
  }
  shapes.set('model.norm.weight', [d])
  if (!config.tiedEmbeddings) shapes.set('lm_head.weight', [config.vocabularySize, d])
  return shapes
}

/** How many numbers there are to train. */
export const parameterCount = (config: DecoderConfig): number =>
  [...parameterShapes(config).values()].reduce((sum, shape) => sum + shape.reduce((n, m) => n * m, 1), 0)

/**
 * Fresh parameters: norms 1, biases 0, weights normal with standard deviation `scale` (Transformers' default 0.02).
 *
 * Effects  makes tensors that belong to the enclosing scope.
 */
export const initialParams = (config: DecoderConfig, key: Key, scale = 0.02): Params =>
  Object.fromEntries(
    [...parameterShapes(config)].map(([name, shape]) => {
      if (name.endsWith('norm.weight')) return [name, tf.ones([...shape])]
      if (name.endsWith('.bias')) return [name, tf.zeros([...shape])]
      const size = shape.reduce((n, m) => n * m, 1)
      return [
        name,
        tf.tensor(
          normals(child(key, name), size).map((x) => x * scale),
          [...shape],
        ),
      ]
    }),
  )
