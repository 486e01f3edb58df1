/**
 * Transforms: views between an environment and a policy.
 *
 * A transform is a record of functions that return the entries they *add*: to a state on reset and
 * on step, to an action on its way in. Other entries stay unchanged. Its memory is its state `S`,
 * an argument and a result, which the composed environment keeps in the TensorDict. Laws, checked
 * by the kit in `@tandem-rl/testing`: identity, associativity, spec soundness, purity.
 */
import type { Key } from '@tandem-rl/base'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { bothInputs, type WithInputs } from '../../data/inputs.js'
import { type After, type Needs, PROVIDERS } from '../../data/needs.js'
import { mergeSpecs, requireSpec, type Spec, type SpecMismatch } from '../../data/spec.js'
import type { IdentifiedRows } from '../../data/task.js'
import { meta } from '../../data/tensorDict/leaf.js'
import { type DeepMerge, merge } from '../../data/tensorDict/merge.js'
import { type Flat, find, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type Env, type EnvFailure, type EnvSpecs, type Outcome, REMEMBERED } from '../base/env.js'

/** Additions and the transform's next state. */
export type Added<S, X> = readonly [added: TensorDict<X>, state: S]

/** The context of a step, for transforms. */
export interface StepContext {
  /** The state before the step. */
  readonly previous: TensorDict
  /** The action as it reached the inner environment, with all its views. */
  readonly action: TensorDict
  /** Aborts when the step is no longer needed. */
  readonly signal?: AbortSignal
}

/**
 * A transform. `In`: the entries that it needs of a state. `Out`: those that it adds. `Outer`: the
 * entries that it needs of an action. `Inner`: those that it adds to the action. `prime` adds to
 * the request before the inner environment resets. Draw randomness from `child(key, name)`, because
 * all transforms share the key.
 */
export interface Transform<S, In, Out, Inner = unknown, Outer = unknown> extends WithInputs {
  readonly name: string
  readonly initial: S
  /** Returns the specs of the environment with this transform, or the entries that are missing. */
  readonly spec: (inner: EnvSpecs) => E.Either<SpecMismatch, EnvSpecs>
  readonly prime: (request: TensorDict, state: S, key: Key) => TE.TaskEither<EnvFailure, Added<S, unknown>>
  readonly reset: (td: TensorDict<In>, state: S, key: Key) => TE.TaskEither<EnvFailure, Added<S, Out>>
  readonly step: (next: TensorDict<In>, context: StepContext, state: S) => TE.TaskEither<EnvFailure, Added<S, Out>>
  readonly inverse: (action: TensorDict<Outer>, td: TensorDict<Out>) => E.Either<EnvFailure, TensorDict<Inner>>
  /**
   * Releases resources of the episodes of a state, as `Env.release` does. Default: nothing to
   * release.
   */
  readonly release?: (state: TensorDict) => void
  /** The rows that `prime` draws in order. Default: none. */
  readonly source?: IdentifiedRows
}

const nothing = (td: TensorDict): TensorDict<never> => TensorDict({}, td.batchShape) as TensorDict<never> // adds no key

/** The parts of a transform; omitted functions add nothing. */
export interface TransformParts<S, In, Out, Inner, Outer> extends WithInputs {
  readonly name: string
  readonly initial: S
  readonly needs?: EnvSpecs
  readonly adds: Spec
  /** Replaces the inner action entries of `removes` by these. */
  readonly takes?: { readonly removes: Spec; readonly adds: Spec }
  readonly prime?: Transform<S, In, Out, Inner, Outer>['prime']
  readonly reset?: Transform<S, In, Out, Inner, Outer>['reset']
  readonly step?: Transform<S, In, Out, Inner, Outer>['step']
  readonly inverse?: Transform<S, In, Out, Inner, Outer>['inverse']
  readonly release?: (state: TensorDict) => void
  readonly source?: IdentifiedRows
}

/** Returns the source of the outer one of two parts that draws rows; none if neither does. */
const outerSource = (
  inner: Pick<Env<never, never>, 'source'>,
  outer: Pick<Env<never, never>, 'source'>,
): { readonly source?: IdentifiedRows } => {
  const source = outer.source ?? inner.source
  return source === undefined ? {} : { source }
}

/** Joins the releases of two transforms; none if neither has one. */
const bothReleases = (
  inner: Pick<Env<never, never>, 'release'>,
  outer: Pick<Env<never, never>, 'release'>,
): { readonly release?: (state: TensorDict) => void } => {
  if (inner.release === undefined && outer.release === undefined) return {}
  return {
    release: (state) => {
      outer.release?.(state)
      inner.release?.(state)
    },
  }
}

const withoutKeys = (spec: Spec, removed: Spec): Spec =>
  Object.fromEntries(Object.entries(spec).filter(([key]) => !(key in removed)))

/** Makes a transform from its parts. */
export const transform = <S, In, Out, Inner = unknown, Outer = unknown>(
  parts: TransformParts<S, In, Out, Inner, Outer>,
): Transform<S, In, Out, Inner, Outer> => ({
  name: parts.name,
  initial: parts.initial,
  spec: ({ observation, action }) =>
    pipe(
      requireSpec(parts.needs?.observation ?? {}, observation, parts.name),
      E.chain(() => requireSpec(parts.needs?.action ?? {}, action, parts.name)),
      E.map(() => ({
        observation: mergeSpecs(observation, parts.adds),
        action: parts.takes ? mergeSpecs(withoutKeys(action, parts.takes.removes), parts.takes.adds) : action,
      })),
    ),
  prime: parts.prime ?? ((td, state) => TE.right([nothing(td), state])),
  reset: parts.reset ?? ((td, state) => TE.right([nothing(td), state])),
  step: parts.step ?? ((td, _, state) => TE.right([nothing(td), state])),
  inverse: parts.inverse ?? ((action) => E.right(nothing(action))),
  ...(parts.release !== undefined && { release: parts.release }),
  ...(parts.inputs !== undefined && { inputs: parts.inputs }),
  ...outerSource({}, parts),
})

/** The identity of composition, which adds nothing. */
export const identity: Transform<null, unknown, unknown> = transform({ name: 'identity', initial: null, adds: {} })

/**
 * Composes two transforms, `second` around `first`: states pass `first`, then `second`; actions
 * pass them in reverse.
 */
export const compose = <S1, S2, In1, Out1, Inner1, Outer1, In2, Out2, Inner2, Outer2>(
  first: Transform<S1, In1, Out1, Inner1, Outer1>,
  second: Transform<S2, In2, Out2, Inner2, Outer2>,
): Transform<
  readonly [S1, S2],
  In1 & Omit<In2, keyof Out1>,
  DeepMerge<Out1, Out2>,
  DeepMerge<Inner2, Inner1>,
  Outer2 & Omit<Outer1, keyof Inner2>
> => {
  // Casts in this function: each half is given the TensorDict that the other half has completed;
  // keys add up by the result type.
  const both = <A, B>(
    td: TensorDict,
    kept: unknown,
    runFirst: (td: TensorDict) => TE.TaskEither<EnvFailure, Added<A, unknown>>,
    runSecond: (td: TensorDict) => TE.TaskEither<EnvFailure, Added<B, unknown>>,
  ): TE.TaskEither<EnvFailure, Added<readonly [A, B], never>> =>
    pipe(
      runFirst(td),
      TE.chain(([added1, state1]) =>
        pipe(
          freeing(added1, [td, kept], () => runSecond(merge(td, added1))),
          TE.map(([added2, state2]) => [combine(added1, added2), [state1, state2]] as const),
        ),
      ),
    )
  return {
    name: `${first.name} > ${second.name}`,
    initial: [first.initial, second.initial],
    ...bothReleases(first, second),
    ...bothInputs(first, second),
    ...outerSource(first, second),
    spec: (inner) => pipe(first.spec(inner), E.chain(second.spec)),
    prime: (request, [s1, s2], key) =>
      pipe(
        both(
          request,
          [],
          (td) => second.prime(td, s2, key),
          (td) => first.prime(td, s1, key),
        ),
        TE.map(([added, [next2, next1]]) => [added, [next1, next2]] as const),
      ),
    reset: (td, [s1, s2], key) =>
      both(
        td,
        [],
        (x) => first.reset(x as TensorDict<In1>, s1, key),
        (x) => second.reset(x as TensorDict<In2>, s2, key),
      ),
    step: (next, context, [s1, s2]) =>
      both(
        next,
        context,
        (x) => first.step(x as TensorDict<In1>, context, s1),
        (x) => second.step(x as TensorDict<In2>, context, s2),
      ),
    inverse: (action, td) =>
      pipe(
        second.inverse(action as TensorDict<never>, td as TensorDict<never>),
        E.chain((inner2) =>
          pipe(
            first.inverse(merge(action, inner2) as TensorDict<never>, td as TensorDict<never>),
            E.map((inner1) => combine(inner2, inner1)),
          ),
        ),
      ),
  }
}

/**
 * Merges both additions, and frees tensors of the first that are replaced and have no other owner.
 */
const combine = (first: TensorDict, second: TensorDict): TensorDict<never> => {
  const merged = merge(first, second)
  discard(first, merged)
  return merged as TensorDict<never> // a TensorDict of whatever schema the caller states
}

/** Appends the transform that adds a missing entry: `text: missing (TemplateTransform adds it)`. */
const withProvider = (problem: string): string => {
  const [, key] = /^(\w+)(?:\.[\w.]+)?: missing$/.exec(problem) ?? []
  const provider = key === undefined ? undefined : new Map<string, string>(Object.entries(PROVIDERS)).get(key)
  return provider === undefined ? problem : `${problem} (${provider} adds it)`
}

const stateOf = <S>(td: TensorDict, place: string, initial: S): S => {
  const entry = find(td, [REMEMBERED, place])
  // The cast is right because only `withState` writes this entry, with a value of the same
  // transform.
  return entry !== undefined && '_tag' in entry && entry._tag === 'Meta' ? (entry.value as S) : initial
}

const withState = (td: TensorDict, place: string, state: unknown): TensorDict =>
  merge(td, TensorDict({ [REMEMBERED]: { [place]: meta(state) } }, td.batchShape))

/**
 * Puts additions and state into a TensorDict. Frees tensors that are replaced, have no other owner
 * and are not part of `kept`.
 */
const complete = (
  td: TensorDict,
  place: string,
  [added, state]: Added<unknown, unknown>,
  kept: unknown,
): TensorDict => {
  const merged = withState(merge(td, added), place, state)
  discard(td, [merged, kept])
  return merged
}

/**
 * Runs a task. If it fails or throws, frees the tensors of a TensorDict that will not be returned,
 * except those of `kept`.
 */
const freeing =
  <T>(td: unknown, kept: unknown, task: () => TE.TaskEither<EnvFailure, T>): TE.TaskEither<EnvFailure, T> =>
  async () => {
    let result: E.Either<EnvFailure, T> | undefined
    try {
      result = await task()()
      return result
    } finally {
      if (result === undefined || E.isLeft(result)) discard(td, kept)
    }
  }

/** The actions of an environment of actions `A` around which a transform is put. */
export type Acted<A, Inner, Outer> = unknown extends Inner & Outer
  ? A
  : [keyof A] extends [keyof Inner]
    ? Outer
    : Flat<Omit<A, keyof Inner> & Outer>

/** Puts a transform around environments. `What` names the entries that their states must have. */
export type Appending<What, In, Out, Inner, Outer> = <O extends Needs<What, In>, A>(
  env: Env<O, A>,
) => Env<DeepMerge<O, Out>, Acted<A, Inner, Outer>>

/**
 * Puts a transform around an environment: `pipe(env, append(t1), append(t2))`.
 *
 * Errors   a type error whose first line names the missing transform; throws Error if the
 *          environment's specs lack required entries, and lists them with the transforms that add
 *          them.
 * Effects  none. Each transform keeps its state in the TensorDict under `transforms`, by its
 *          position in the chain.
 */
export const append =
  <S, In, Out, Inner, Outer>(t: Transform<S, In, Out, Inner, Outer>): Appending<After<In>, In, Out, Inner, Outer> =>
  <O extends Needs<After<In>, In>, A>(env: Env<O, A>): Env<DeepMerge<O, Out>, Acted<A, Inner, Outer>> => {
    const specs = t.spec(env.specs)
    if (E.isLeft(specs))
      throw new Error(`append: ${t.name} does not fit ${env.name}: ${specs.left.problems.map(withProvider).join('; ')}`)
    const name = `${env.name} > ${t.name}`
    const place = name // the whole chain up to here: unique, also when a transform is used twice
    // Casts in this function: the transform and the inner environment see the same TensorDict under
    // their own schemas.
    const reset: Env<O, A>['reset'] = (request, key) =>
      pipe(
        t.prime(request, stateOf(request, place, t.initial), key),
        TE.chain(([added, state]) =>
          pipe(
            freeing(added, request, () =>
              pipe(
                env.reset(complete(request, place, [added, state], request), key),
                TE.chain((td) =>
                  pipe(
                    freeing(td, request, () => t.reset(td as TensorDict as TensorDict<In>, state, key)),
                    TE.map((result) => complete(td, place, result, request) as TensorDict<O>),
                  ),
                ),
              ),
            ),
            TE.map((result) => {
              discard(added, [result, request])
              return result
            }),
          ),
        ),
      )
    return {
      name,
      batchSize: env.batchSize,
      specs: specs.right,
      ...bothReleases(env, t),
      ...bothInputs(env, t),
      ...outerSource(env, t),
      reset: reset as never,
      step: (td, action, options = {}) =>
        pipe(
          TE.fromEither(t.inverse(action as TensorDict as TensorDict<Outer>, td as TensorDict as TensorDict<Out>)),
          TE.chain((inner) => {
            const full = merge(action, inner) as TensorDict
            options.onAction?.(full)
            const context = { previous: td, action: full, ...(options.signal && { signal: options.signal }) }
            return pipe(
              freeing(inner, [td, action], () =>
                pipe(
                  env.step(td as TensorDict as TensorDict<O>, full as TensorDict<A>, options),
                  TE.chain((next) =>
                    pipe(
                      freeing(next, [td, action], () =>
                        t.step(next as TensorDict as TensorDict<In>, context, stateOf(td, place, t.initial)),
                      ),
                      TE.map((result) => complete(next, place, result, [td, action]) as TensorDict<never>),
                    ),
                  ),
                ),
              ),
              TE.map((result) => {
                discard(inner, [result, td, action])
                return result
              }),
            )
          }),
        ),
    } as Env<DeepMerge<O, Out>, Acted<A, Inner, Outer>>
  }

/** The entries of an environment's states after a step. */
export type Stepped<O> = DeepMerge<O, Outcome>
