import { engineSuite } from '../../kit/engineSuite.js'
import { byteTokenizer, scriptedEngine, TOY_VOCABULARY, toyAdapter, toyWeights } from '../../kit/scriptedEngine.js'
import { placesOf, scriptedRunner, toyLogits } from '../../kit/scriptedRunner.js'

engineSuite('the engine of this process', () => ({
  engine: scriptedEngine({ runner: scriptedRunner({ vocabularySize: TOY_VOCABULARY, maxLength: 160 }) }).engine,
  model: {
    logits: (tokens, { base, adapter }) =>
      toyLogits(placesOf(tokens, (base === 'first' ? 0 : 0.5) + (adapter === 'none' ? 0 : 0.25)), TOY_VOCABULARY),
    second: toyWeights(0.5),
    broken: toyWeights(Number.NaN),
    adapter: toyAdapter(0.25),
    tolerance: 1e-5,
    decode: (ids) => byteTokenizer.decode([...ids], 'skip'),
    cacheBlock: 16,
  },
}))
