/** The common abilities of several engines. */
import * as E from 'fp-ts/lib/Either.js'
import type { EngineAbilities } from '../../data/engineClient.js'

/** The abilities of one engine, by its name. */
export type NamedAbilities = readonly [name: string, abilities: EngineAbilities]

const agree = <T>(values: readonly T[]): boolean => new Set(values).size <= 1

/**
 * Returns the kind of log-probabilities that all engines support. An engine with `all` supports
 * every kind.
 */
const sharedLogProbs = (abilities: readonly EngineAbilities[]): EngineAbilities['logProbs'] | null => {
  const reported = new Set(abilities.map(({ logProbs }) => logProbs))
  if (reported.size > 1) reported.delete('all')
  const [only] = reported
  return reported.size === 1 && only !== undefined ? only : null
}

const each = (members: readonly NamedAbilities[], field: 'logProbs' | 'vocabularySize'): string =>
  members.map(([name, abilities]) => `${name} ${abilities[field]}`).join(', ')

/**
 * Returns the abilities that requests can rely on with any of the engines: the smallest limits, and
 * the abilities of all.
 *
 * Unreported values, an infinite vocabulary or missing end tokens, are taken from the other
 * engines. `maxConcurrent` is that of the smallest engine too, because a request is never divided.
 *
 * Errors   `Left` without engines, and for engines that differ in vocabulary, end tokens or the
 *          meaning of log-probabilities.
 */
export const sharedAbilities = (members: readonly NamedAbilities[]): E.Either<string, EngineAbilities> => {
  const all = members.map(([, abilities]) => abilities)
  const [first] = all
  if (first === undefined) return E.left('there is no engine')
  const logProbs = sharedLogProbs(all)
  if (logProbs === null) return E.left(`log-probabilities mean different things: ${each(members, 'logProbs')}`)
  if (!agree(all.map(({ vocabularySize }) => vocabularySize).filter(Number.isFinite))) {
    return E.left(`vocabularies have different sizes: ${each(members, 'vocabularySize')}`)
  }
  const ends = all.map(({ endTokens }) => endTokens).filter(({ length }) => length > 0)
  if (!agree(ends.map((tokens) => [...tokens].sort((a, b) => a - b).join()))) {
    return E.left('the engines have different end tokens: they do not serve one model')
  }
  const allSay = (field: 'promptLogProbs' | 'stamps' | 'control'): 'yes' | 'no' =>
    all.every((abilities) => abilities[field] === 'yes') ? 'yes' : 'no'
  return E.right({
    maxModelLength: Math.min(...all.map(({ maxModelLength }) => maxModelLength)),
    vocabularySize: Math.min(...all.map(({ vocabularySize }) => vocabularySize)),
    maxConcurrent: Math.min(...all.map(({ maxConcurrent }) => maxConcurrent)),
    endTokens: ends[0] ?? [],
    server: [...new Set(all.map(({ server }) => server))].join(' and '),
    logProbs,
    promptLogProbs: allSay('promptLogProbs'),
    stamps: allSay('stamps'),
    updates: first.updates.filter((update) => all.every(({ updates }) => updates.includes(update))),
    control: allSay('control'),
  })
}
