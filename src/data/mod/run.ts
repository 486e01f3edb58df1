/** Running modules. */
import { type Either, isLeft, left, right } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { describe } from '../../core/failure.js'
import { discard, scope } from '../../engine/scope.js'
import { isLeaf, type Leaf } from '../tensorDict/leaf.js'
import { leafEntries } from '../tensorDict/leaves.js'
import type { DeepMerge } from '../tensorDict/merge.js'
import { find, isTensorDict, type TensorDict, type TensorDictProblem } from '../tensorDict/tensorDict.js'
import { entryAt, isAtOrBelow, type ModPath, pathId, restrict, withEntry } from './keys.js'
import { type AnyMod, type Mod, type ModFailure, type ModKind, type ModMode, modFailure } from './mod.js'

type Later<T> = T | Promise<T>
type Result = Either<ModFailure, TensorDict>

const after = <A, B>(value: Later<A>, f: (value: A) => Later<B>): Later<B> =>
  value instanceof Promise ? value.then(f) : f(value)

/** All results, in order. If one throws, the others are waited for, so that what they make can be freed. */
const all = (starts: readonly (() => Later<Result>)[]): Later<readonly Result[]> => {
  const started: Later<Result>[] = []
  for (const start of starts) {
    try {
      started.push(start())
    } catch (error) {
      if (!started.some((result) => result instanceof Promise)) throw error
      started.push(Promise.reject(error))
    }
  }
  const done = started.flatMap((result) => (result instanceof Promise ? [] : [result]))
  if (done.length === started.length) return done
  return Promise.allSettled(started).then((settled) =>
    settled.map((result) => {
      if (result.status === 'rejected') throw result.reason
      return result.value
    }),
  )
}

/** Every leaf in what a module returned, with its path; what is no entry, as a problem. */
const givenLeaves = (
  value: unknown,
  path: readonly string[],
): readonly (readonly [readonly string[], Leaf | TensorDictProblem])[] => {
  if (isLeaf(value)) return [[path, value]]
  if (isTensorDict(value)) return leafEntries(value).map(([below, leaf]) => [[...path, ...below], leaf] as const)
  const prototype: unknown = value === null || typeof value !== 'object' ? undefined : Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) {
    return [[path, { path, reason: `expected a tensor, ragged rows, data, meta or a record, got ${typeof value}` }]]
  }
  return Object.entries(value as object).flatMap(([key, entry]) => givenLeaves(entry, [...path, key]))
}

/** `td` with what a leaf module returned, or all that is wrong with that. */
const accept = (mod: AnyMod, td: TensorDict, returned: unknown): Result => {
  const given = givenLeaves(returned, [])
  const leaves = new Map(given.map(([path, leaf]) => [pathId(path), leaf]))
  const extra = given
    .filter(([path]) => !mod.outKeys.some((out) => pathId(out) === pathId(path)))
    .map(([path]) => ({ path, reason: 'returned, but not one of the outKeys' }))
  const missing = mod.outKeys
    .filter((path) => !leaves.has(pathId(path)))
    .map((path) => ({
      path,
      reason: given.some(([other]) => isAtOrBelow(other, path)) ? 'a node, but outKeys name leaves' : 'not returned',
    }))
  const problems: TensorDictProblem[] = [...missing, ...extra]
  let result = td
  for (const path of mod.outKeys) {
    const leaf = leaves.get(pathId(path))
    if (leaf === undefined) continue
    const next = 'reason' in leaf ? leaf : withEntry(result, path, leaf)
    if (isTensorDict(next)) result = next
    else problems.push(next)
  }
  return problems.length === 0
    ? right(result)
    : left(modFailure(mod.name, 'its outputs are not what it promised:', problems))
}

/** `td` with the entries that `mod` writes, taken from elsewhere. */
const withOutputs = (
  mod: AnyMod,
  td: TensorDict,
  outputs: readonly (readonly [ModPath, Leaf | TensorDict])[],
): Result => {
  let result = td
  const problems: TensorDictProblem[] = []
  for (const [path, entry] of outputs) {
    const next = withEntry(result, path, entry)
    if (isTensorDict(next)) result = next
    else problems.push(next)
  }
  return problems.length === 0 ? right(result) : left(modFailure(mod.name, 'its outputs have no place:', problems))
}

type Collect = (made: unknown) => void

const callLeaf = (mod: AnyMod, kind: ModKind & { readonly _tag: 'Leaf' }, { td, collect }: Run): Later<Result> => {
  const inputs = restrict(td, mod.inKeys)
  const answer = scope(() => kind.call(inputs))
  return after(typeof answer === 'function' ? answer() : answer, (result) => {
    if (isLeft(result)) {
      return left({ ...modFailure(mod.name, describe(result.left)), cause: result.left })
    }
    collect(result.right)
    return accept(mod, td, result.right)
  })
}

interface Run {
  readonly td: TensorDict
  /** Is told of all that leaf modules return. */
  readonly collect: Collect
}

const execute = (mod: AnyMod, { td, collect }: Run): Later<Result> => {
  const { kind } = mod
  switch (kind._tag) {
    case 'Leaf':
      return callLeaf(mod, kind, { td, collect })
    case 'Seq':
      return kind.mods.reduce<Later<Result>>(
        (before, each) =>
          after(before, (result) => (isLeft(result) ? result : execute(each, { td: result.right, collect }))),
        right(td),
      )
    case 'Parallel':
      return after(all(kind.mods.map((each) => () => execute(each, { td, collect }))), (results) => {
        const failed = results.find(isLeft)
        if (failed !== undefined) return failed
        const outputs = results.flatMap((result, i) =>
          isLeft(result) ? [] : kind.mods[i]!.outKeys.map((path) => [path, entryAt(result.right, path)] as const),
        )
        return withOutputs(mod, td, outputs)
      })
    case 'Pick':
      return after(execute(kind.mod, { td, collect }), (result) =>
        isLeft(result)
          ? result
          : withOutputs(
              mod,
              td,
              mod.outKeys.map((path) => [path, entryAt(result.right, path)] as const),
            ),
      )
    case 'Branch': {
      const name = scope(() => kind.choose(restrict(td, kind.choiceKeys)))
      const chosen = kind.cases.get(name)
      return chosen === undefined
        ? left(
            modFailure(
              mod.name,
              `${JSON.stringify(name)} is none of the cases ${[...kind.cases.keys()].map((key) => JSON.stringify(key)).join(', ')}`,
            ),
          )
        : execute(chosen, { td, collect })
    }
    case 'Remap': {
      const [stay, moved] = [kind.inPaths.filter(isStill), kind.inPaths.filter((move) => !isStill(move))]
      const inside = withOutputs(
        mod,
        restrict(
          td,
          stay.map(({ outer }) => outer),
        ),
        moved.map(({ inner, outer }) => [inner, entryAt(td, outer)] as const),
      )
      if (isLeft(inside)) return inside
      return after(execute(kind.mod, { td: inside.right, collect }), (result) =>
        isLeft(result)
          ? result
          : withOutputs(
              mod,
              td,
              kind.outPaths.map(({ inner, outer }) => [outer, entryAt(result.right, inner)] as const),
            ),
      )
    }
  }
}

const isStill = ({ inner, outer }: { readonly inner: ModPath; readonly outer: ModPath }): boolean =>
  pathId(inner) === pathId(outer)

/** The failure of a module whose inputs are not all there. */
const missingInputs = (mod: AnyMod, td: TensorDict): ModFailure | undefined => {
  const missing = mod.inKeys.filter((path) => find(td, path) === undefined)
  return missing.length === 0
    ? undefined
    : modFailure(
        mod.name,
        'inputs are missing:',
        missing.map((path) => ({ path, reason: '' })),
      )
}

/**
 * The TensorDict with what a module writes: all other entries are the same objects.
 *
 * Types    a TensorDict that lacks an entry which the module reads does not compile, nor does a module that waits.
 * Errors   `Left(ModFailure)`, naming the module: for missing inputs, all of them, before anything runs; if a module fails, with its
 *          failure as `cause`; if its outputs are not those that it promised, or do not fit the batch shape, with all problems.
 * Effects  makes the tensors of the outputs, which belong to the enclosing scope. What else modules make is freed, and all of it on
 *          a `Left` or if a module throws. `td` is not changed.
 *
 * @example
 * orThrow(runMod(identityMod, TensorDict({ x: meta(1) }, []))).entries.get('x') // meta(1)
 */
export const runMod = <In, Out, S extends In>(
  mod: Mod<In, Out>,
  td: TensorDict<S>,
): Either<ModFailure, TensorDict<DeepMerge<S, Out>>> => {
  const failure = missingInputs(mod, td)
  if (failure !== undefined) return left(failure)
  const result = scope(() => {
    const done = execute(mod, { td, collect: () => {} })
    if (done instanceof Promise)
      throw new TypeError(`runMod: module ${JSON.stringify(mod.name)} waits; runModAsync runs it`)
    return done
  })
  return result as Either<ModFailure, TensorDict<DeepMerge<S, Out>>> // Out was written into S
}

/**
 * `runMod` for modules that wait. The tensors of `td` must live until the result is there.
 *
 * Errors   as `runMod`.
 * Effects  makes the tensors of the outputs, which belong to the caller: no scope knows them. What modules returned and is not in
 *          the result is freed, all of it on a `Left` or if a module throws, except what somebody owns.
 *
 * @example
 * runModAsync(identityMod, TensorDict({}, []))().then(({ _tag }) => _tag) // Promise.resolve('Right')
 */
export const runModAsync =
  <In, Out, S extends In>(
    mod: Mod<In, Out, ModMode>,
    td: TensorDict<S>,
  ): TaskEither<ModFailure, TensorDict<DeepMerge<S, Out>>> =>
  async () => {
    const failure = missingInputs(mod, td)
    if (failure !== undefined) return left(failure)
    const made: unknown[] = []
    let result: Result | undefined
    try {
      result = await execute(mod, { td, collect: (outputs) => made.push(outputs) })
    } finally {
      discard(made, [td, result])
    }
    return result as Either<ModFailure, TensorDict<DeepMerge<S, Out>>> // Out was written into S
  }
