/** Which parameters belong to which part of a decoder, and which layers compute alike. */
import type { DecoderConfig } from './config.js'
import type { Params } from './params.js'

const LAYER = /^(.+?\.)(\d+)(\..+)$/

/** Matrices that are looked up by token or position. */
const EMBEDDING = /(?:^|\.)(?:embed_tokens|wte|wpe)\.weight$/

/** Parameters by the part of the decoder that they belong to. */
export interface ParamParts {
  readonly embedding: Params
  /** One record for each layer. */
  readonly layers: readonly Params[]
  /** The final norm and the output projection: with tied embeddings they share the embedding's matrix. */
  readonly head: Params
}

/** The number of the layer that a parameter belongs to; undefined for one outside of all layers. */
const layerOf = (name: string): number | undefined => {
  const number = LAYER.exec(name)?.[2]
  return number === undefined ? undefined : Number(number)
}

/**
 * The first layer that computes as layer `layer` does, but for its weights: one compiled graph serves all of them.
 *
 * @example
 * likeLayer({ layers: 4 }, 3) // 0
 */
export const likeLayer = (_config: Pick<DecoderConfig, 'layers'>, _layer: number): number => 0

/** The same parameters under the names of another layer. Names outside of all layers stay. */
export const renamedTo = (params: Params, layer: number): Params =>
  Object.fromEntries(
    Object.entries(params).map(([name, tensor]) => [
      name.replace(LAYER, (_, before, __, after) => before + layer + after),
      tensor,
    ]),
  )

/** Parameters, or some of them, by part. Each is in one part, but a tied embedding, which is in two. */
export const paramParts = (params: Params, config: DecoderConfig): ParamParts => {
  const entries = Object.entries(params)
  const pick = (holds: (name: string) => boolean): Params => Object.fromEntries(entries.filter(([name]) => holds(name)))
  const layers = Array.from({ length: config.layers }, (): [string, Params[string]][] => [])
  for (const entry of entries) layers[layerOf(entry[0]) ?? -1]?.push(entry)
  const isOuter = (name: string): boolean => layerOf(name) === undefined
  return {
    embedding: pick((name) => EMBEDDING.test(name)),
    layers: layers.map((own) => Object.fromEntries(own)),
    head: pick((name) => isOuter(name) && (config.tiedEmbeddings || !EMBEDDING.test(name))),
  }
}
