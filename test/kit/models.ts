/** Small models for tests. */
import type { DecoderConfig } from '../../src/modules/transformer/config.js'

/** A decoder of a few thousand parameters. */
export const tinyConfig = (changes: Partial<DecoderConfig> = {}): DecoderConfig => ({
  architecture: 'qwen2',
  vocabularySize: 32,
  hiddenSize: 16,
  intermediateSize: 32,
  layers: 2,
  heads: 4,
  keyValueHeads: 2,
  headSize: 8,
  ropeTheta: 10000,
  normEpsilon: 1e-6,
  maxPositions: 256,
  projectionBias: true,
  tiedEmbeddings: true,
  endTokens: [3],
  padToken: 0,
  ...changes,
})
