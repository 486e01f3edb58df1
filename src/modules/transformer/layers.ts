/** Which parameters belong to which part of a decoder, and which layers compute alike. */
import type { DecoderConfig } from './config.js'
import type { Params } from './params.js'

/** Parameters by the part of the decoder that they belong to. */
export interface ParamParts {
  readonly embedding: Params
  /** One record for each layer. */
  readonly layers: readonly Params[]
  /** The final norm and the output projection: with tied embeddings they share the embedding's matrix. */
  readonly head: Params
}

/** The layer that a parameter belongs to, and where the name goes on; undefined for one outside of all layers. */
const placeOf = (
  name: string,
  { layerName }: DecoderConfig,
): { readonly layer: number; readonly rest: string } | undefined => {
  if (!name.startsWith(`${layerName}.`)) return undefined
  const start = layerName.length + 1
  const end = name.indexOf('.', start)
  return { layer: Number(name.slice(start, end)), rest: name.slice(end) }
}

/** The first layer that computes as layer `layer` does, but for its weights: one compiled graph serves all of them. */
export const likeLayer = ({ layerKinds }: DecoderConfig, layer: number): number => {
  const kind = JSON.stringify(layerKinds[layer])
  return layerKinds.findIndex((other) => JSON.stringify(other) === kind)
}

/** The same parameters under the names of another layer. Names outside of all layers stay. */
export const renamedTo = (params: Params, config: DecoderConfig, layer: number): Params =>
  Object.fromEntries(
    Object.entries(params).map(([name, tensor]) => {
      const place = placeOf(name, config)
      return [place === undefined ? name : `${config.layerName}.${layer}${place.rest}`, tensor]
    }),
  )

/** Parameters, or some of them, by part. Each is in one part, but a tied embedding, which is in two. */
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
