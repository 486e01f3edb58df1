/** Modules for tests, and what they say when they fail. */
import * as E from 'fp-ts/lib/Either.js'
import { parallel, seq } from '../../src/data/mod/combine.js'
import { type AnyMod, type Mod, type ModFailure, mod } from '../../src/data/mod/mod.js'
import { runMod } from '../../src/data/mod/run.js'
import { type Meta, meta } from '../../src/data/tensorDict/leaf.js'
import { get, TensorDict, TensorDictError } from '../../src/data/tensorDict/tensorDict.js'

type Numbers = Readonly<Record<string, Meta<number>>>

/** A module that writes, to each of `outKeys`, one more than the sum of the numbers at `inKeys`, and says in `log` that it runs. */
export const sum = (
  name: string,
  keys: { readonly inKeys: readonly string[]; readonly outKeys: readonly string[] },
  log: string[] = [],
): Mod<Numbers, Numbers> =>
  mod({
    name,
    ...keys,
    run: (td: TensorDict<Numbers>) => {
      log.push(name)
      const total = keys.inKeys.reduce((n, key) => n + get(td, key).value, 1)
      return E.right(Object.fromEntries(keys.outKeys.map((key) => [key, meta(total)])))
    },
  })

/** A TensorDict of numbers. */
export const numbers = (values: Readonly<Record<string, number>>): TensorDict<Numbers> =>
  TensorDict(Object.fromEntries(Object.entries(values).map(([key, value]) => [key, meta(value)])), [])

/** The failure of a module that is expected to fail. */
export const leftOf = (result: E.Either<ModFailure, unknown>): ModFailure => {
  if (E.isRight(result)) throw new Error('it did not fail')
  return result.left
}

/** The problems of the TensorDictError that `f` throws, each with its path. */
export const problemsOf = (f: () => unknown): readonly string[] => {
  try {
    f()
  } catch (error) {
    if (!(error instanceof TensorDictError)) throw error
    return (error.details.problems ?? [{ path: error.path, reason: error.details.reason }]).map(
      ({ path, reason }) => `${path.join('.')}: ${reason}`,
    )
  }
  throw new Error('it did not throw')
}

/** The functions without their types, for wrong wiring that the compiler would refuse. */
export const untyped = {
  seq: seq as unknown as (...mods: readonly AnyMod[]) => AnyMod,
  parallel: parallel as unknown as (...mods: readonly AnyMod[]) => AnyMod,
  run: runMod as unknown as (mod: AnyMod, td: TensorDict) => E.Either<ModFailure, TensorDict>,
}
