/** What the types of composed modules are: the schemas that they read and write. For the other files of this folder. */
import type { DeepMerge } from '../tensorDict/merge.js'
import type { Flat, TensorDict } from '../tensorDict/tensorDict.js'
import type { LeafPaths, NoneLeft } from './keys.js'
import type { InOf, Mod, ModeOf, ModMode, OutOf } from './mod.js'

/** The schema of nothing. */
export type Empty = Readonly<Record<never, never>>

/** The schema of which every TensorDict is an example, if `In` asks for nothing. */
type AllOf<In> = [keyof In] extends [never] ? unknown : In

/** All that both need. */
export type Both<A, B> = Flat<
  Omit<A, keyof B> & {
    readonly [K in keyof B]: K extends keyof A
      ? A[K] extends TensorDict<infer X>
        ? B[K] extends TensorDict<infer Y>
          ? TensorDict<Both<X, Y>>
          : A[K] & B[K]
        : A[K] & B[K]
      : B[K]
  }
>

/** A schema, as far as the compiler knows its keys. */
type Known<S> = string extends keyof S ? Empty : S

/** What is needed of `In` when `Out` is there already. A whole node of unknown content is always needed. */
type Needs<In, Out> = {
  readonly [K in keyof In as K extends keyof Out
    ? IsCovered<In[K], Out[K]> extends true
      ? never
      : K
    : K]: K extends keyof Out
    ? In[K] extends TensorDict<infer A>
      ? Out[K] extends TensorDict<infer B>
        ? unknown extends A
          ? In[K]
          : TensorDict<Needs<A, B>>
        : In[K]
      : In[K]
    : In[K]
}

type IsCovered<I, O> =
  I extends TensorDict<infer A>
    ? O extends TensorDict<infer B>
      ? unknown extends A
        ? false
        : [keyof Needs<A, B>] extends [never]
          ? true
          : false
      : true
    : true

/** Paths at which something of another kind is written than is read. */
type Clashes<Out, In> = {
  readonly [K in keyof In & keyof Out & string]: In[K] extends TensorDict<infer A>
    ? Out[K] extends TensorDict<infer B>
      ? Clashes<B, A> extends infer P
        ? P extends readonly string[]
          ? readonly [K, ...P]
          : never
        : never
      : readonly [K]
    : Out[K] extends In[K]
      ? never
      : readonly [K]
}[keyof In & keyof Out & string]

/** For each module: nothing, or a property that it lacks, if an earlier module writes what it cannot read. */
export type Wired<Mods, Out = Empty> = Mods extends readonly [infer M, ...infer Rest]
  ? readonly [
      NoneLeft<Clashes<Known<Out>, InOf<M>>, 'an earlier module writes another kind of entry at'>,
      ...Wired<Rest, DeepMerge<Out, OutOf<M>>>,
    ]
  : readonly unknown[]

/** One module after the other. */
export type SeqOf<Mods, In = Empty, Out = Empty, Mode extends ModMode = never> = Mods extends readonly [
  infer M,
  ...infer Rest,
]
  ? SeqOf<Rest, Both<In, Needs<InOf<M>, Known<Out>>>, DeepMerge<Out, OutOf<M>>, Mode | ModeOf<M>>
  : Mod<AllOf<In>, Out, [Mode] extends [never] ? 'sync' : Mode>

/** Paths that both write. */
type Overlap<A, B> = {
  readonly [K in keyof A & keyof B & string]: A[K] extends TensorDict<infer X>
    ? B[K] extends TensorDict<infer Y>
      ? Overlap<X, Y> extends infer P
        ? P extends readonly string[]
          ? readonly [K, ...P]
          : never
        : never
      : readonly [K]
    : readonly [K]
}[keyof A & keyof B & string]

/** For each module: nothing, or a property that it lacks, if an earlier module writes what it writes. */
export type Disjoint<Mods, Out = Empty> = Mods extends readonly [infer M, ...infer Rest]
  ? readonly [
      NoneLeft<Overlap<Known<Out>, Known<OutOf<M>>>, 'an earlier module writes the same entry'>,
      ...Disjoint<Rest, DeepMerge<Out, OutOf<M>>>,
    ]
  : readonly unknown[]

/** Modules side by side. */
export type ParallelOf<Mods, In = Empty, Out = Empty, Mode extends ModMode = never> = Mods extends readonly [
  infer M,
  ...infer Rest,
]
  ? ParallelOf<Rest, Both<In, InOf<M>>, DeepMerge<Out, OutOf<M>>, Mode | ModeOf<M>>
  : Mod<AllOf<In>, Out, [Mode] extends [never] ? 'sync' : Mode>

/** What all cases of a branch need. */
export type NeededByAll<Cases> = {
  readonly [K in keyof Cases]: (input: InOf<Cases[K]>) => void
}[keyof Cases] extends (input: infer In) => void
  ? In
  : never

type WrittenByEach<Cases> = { readonly [K in keyof Cases]: LeafPaths<OutOf<Cases[K]>> }

/** For each case: nothing, or a property that it lacks, if another case writes what it does not write. */
export type SameOutputs<Cases> = {
  readonly [K in keyof Cases]: NoneLeft<
    Exclude<WrittenByEach<Cases>[keyof Cases], WrittenByEach<Cases>[K]>,
    'another case writes an entry that this one lacks'
  >
}
