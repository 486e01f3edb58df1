/** The projections of a decoder that an adapter can change. */
import type { Projection } from '../transformer/config/description.js'
import type { DecoderConfig } from '../transformer/config.js'
import { HEAD } from '../transformer/params.js'

/**
 * Returns projections by the complete path of their module, in the order of the layers. The output
 * projection is the last, also where its weight is the embedding.
 *
 * Cost     O(layers); no arrays are made.
 */
export const projections = (config: DecoderConfig): ReadonlyMap<string, Projection> => {
  const { attention, feedForward, layerName, hiddenSize, vocabularySize } = config
  const parts = [...attention.inputs, attention.output, ...feedForward.inputs, feedForward.output]
  const paths = Array.from({ length: config.layers }, (_, i) => `${layerName}.${i}`)
  return new Map<string, Projection>([
    ...paths.flatMap((path) =>
      parts.map((part) => [`${path}.${part.name}`, { ...part, name: `${path}.${part.name}` }] as const),
    ),
    [HEAD, { name: HEAD, inputs: hiddenSize, outputs: vocabularySize, bias: 'none', layout: 'out-in' }],
  ])
}

/** Returns the layout in which a model stores all its projections. */
export const storedLayout = ({ attention }: DecoderConfig): Projection['layout'] => attention.output.layout
