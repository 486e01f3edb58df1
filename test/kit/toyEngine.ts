/**
 * The engine over the toy model as `engineSuite` asks for it: for this thread, or for another one
 * under its name in this module.
 */
import type { LLMEngine } from '@tandem-rl/text'
import { right } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { SuiteModel } from './engineSuiteParts.js'
import { byteTokenizer, scriptedEngine, TOY_VOCABULARY, toyAdapter, toyWeights } from './scriptedEngine.js'
import { placesOf, scriptedRunner, toyLogits } from './scriptedRunner.js'

export const toyEngine = (): TaskEither<never, LLMEngine> => async () =>
  right(scriptedEngine({ runner: scriptedRunner({ vocabularySize: TOY_VOCABULARY, maxLength: 160 }) }).engine)

export const toySuiteModel: SuiteModel = {
  logits: (tokens, { base, adapter }) =>
    toyLogits(placesOf(tokens, (base === 'first' ? 0 : 0.5) + (adapter === 'none' ? 0 : 0.25)), TOY_VOCABULARY),
  second: toyWeights(0.5),
  broken: toyWeights(Number.NaN),
  adapter: toyAdapter(0.25),
  tolerance: 1e-5,
  decode: (ids) => byteTokenizer.decode([...ids], 'skip'),
  cacheBlock: 16,
}
