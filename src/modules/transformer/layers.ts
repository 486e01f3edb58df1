/** Groups a decoder's parameters by part, and finds layers with equal arithmetic. */
import type { DecoderConfig } from './config.js'
import type { Params } from './params.js'

/** Parameters by the part of the decoder that they belong to. */
export interface ParamParts {
  readonly embedding: Params
  /** One record per layer. */
  readonly layers: readonly Params[]
  /**
   * The final norm and the output projection. With tied embeddings they share the embedding's
   * matrix.
   */
  readonly head: Params
}

/**
 * Returns the layer of a parameter, and the rest of its name, or `undefined` outside all layers.
 */
const placeOf = (
  name: string,
  { layerName }: DecoderConfig,
): { readonly layer: number; readonly rest: string } | undefined => {
  if (!name.startsWith(`${layerName}.`)) return undefined
  const start = layerName.length + 1
  const end = name.indexOf('.', start)
  return { layer: Number(name.slice(start, end)), rest: name.slice(end) }
}

/**
 * Returns the first layer with the same arithmetic as layer `layer`, apart from weights. One
 * compiled graph serves all of them.
 */
export const likeLayer = ({ layerKinds }: DecoderConfig, layer: number): number => {
  const kind = JSON.stringify(layerKinds[layer])
  return layerKinds.findIndex((other) => JSON.stringify(other) === kind)
}

/** Renames parameters to those of another layer. Names outside all layers stay. */
export const renamedTo = (params: Params, config: DecoderConfig, layer: number): Params =>
  Object.fromEntries(
    Object.entries(params).map(([name, tensor]) => {
      const place = placeOf(name, config)
      return [place === undefined ? name : `${config.layerName}.${layer}${place.rest}`, tensor]
    }),
  )

/** Groups parameters by part. Each is in one part, except a tied embedding, which is in two. */
export const paramParts = (params: Params, config: DecoderConfig): ParamParts => {
  const { embedding, learnedPositions, tiedEmbeddings } = config
  const tables = [embedding.name, ...(learnedPositions === null ? [] : [learnedPositions])].map(
    (name) => `${name}.weight`,
  )
  const layers = Array.from({ length: config.layers }, (): [string, Params[string]][] => [])
  const outer: [string, Params[string]][] = []
  for (const entry of Object.entries(params)) (layers[placeOf(entry[0], config)?.layer ?? -1] ?? outer).push(entry)
  const isHead = (name: string): boolean =>
    !tables.includes(name) || (tiedEmbeddings && name === `${embedding.name}.weight`)
  return {
    embedding: Object.fromEntries(outer.filter(([name]) => tables.includes(name))),
    layers: layers.map((own) => Object.fromEntries(own)),
    head: Object.fromEntries(outer.filter(([name]) => isHead(name))),
  }
}
