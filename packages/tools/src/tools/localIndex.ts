/** Search in passages of this process: by words, or by vectors of an embedding model. */
import { errorMessage, normOf, optionalPackage, type PackageFailure } from '@tandem-rl/base'
import { importPackage } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Passage } from './retrievalCache.js'

/** Passages that can be searched. */
export interface PassageIndex {
  /** Returns the best passages, best first, or the reason of a failed search as `Left`. */
  readonly search: (query: string, count: number, signal: AbortSignal) => TE.TaskEither<string, readonly Passage[]>
}

/** The part of MiniSearch that is used. @internal */
type Library = typeof import('minisearch')

/**
 * Indexes passages by their words. The scores are BM25+ of the package `minisearch`; a word may be
 * the beginning of a longer one.
 *
 * Errors   `Left(PackageFailure)` if `minisearch` is not installed.
 *
 * @example
 * typeof bm25Index([{ text: 'The Nile is 6,650 km long.' }]) // 'function'
 */
export const bm25Index = (
  passages: readonly Passage[],
  load: () => Promise<unknown> = () => importPackage('minisearch', import.meta),
): TE.TaskEither<PackageFailure, PassageIndex> =>
  pipe(
    optionalPackage('minisearch', 'search by words', load as () => Promise<Library>), // cast: what the package exports
    TE.map(({ default: MiniSearch }) => {
      const index = new MiniSearch<Passage & { readonly id: number }>({ fields: ['title', 'text'] })
      index.addAll(passages.map((passage, id) => ({ ...passage, id })))
      return {
        search: (query, count) => async () =>
          E.right(
            index
              .search(query, { prefix: (term) => term.length > 3 })
              .slice(0, count)
              .map(({ id, score }) => ({ ...passages[Number(id)]!, score })), // ids are places in the list
          ),
      }
    }),
  )

/** Turns texts into vectors of one length: an embedding model. */
export type Embed = (texts: readonly string[], signal: AbortSignal) => Promise<readonly (readonly number[])[]>

const normalized = (vector: readonly number[]): readonly number[] => {
  const norm = normOf(vector)
  return norm === 0 ? vector : vector.map((x) => x / norm)
}

const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0)

/**
 * Indexes passages by vectors of an embedding model. The scores are cosines.
 *
 * Errors   `Left` with the reason if the model fails or returns vectors of different lengths.
 * Cost     one product of vectors for each passage and query: for up to some 100,000 passages.
 *
 * @example
 * typeof denseIndex([{ text: 'one' }], async (texts) => texts.map((text) => [text.length])) // 'function'
 */
export const denseIndex = (passages: readonly Passage[], embed: Embed): TE.TaskEither<string, PassageIndex> => {
  const vectorsOf = (
    texts: readonly string[],
    signal: AbortSignal,
  ): TE.TaskEither<string, readonly (readonly number[])[]> =>
    pipe(
      TE.tryCatch(() => embed(texts, signal), errorMessage),
      TE.chainEitherK((vectors): E.Either<string, readonly (readonly number[])[]> => {
        const sizes = new Set(vectors.map(({ length }) => length))
        return vectors.length === texts.length && sizes.size <= 1
          ? E.right(vectors.map(normalized))
          : E.left(`the embedding model returned ${vectors.length} vectors of ${[...sizes].join(', ')} numbers`)
      }),
    )
  return pipe(
    vectorsOf(
      passages.map(({ title, text }) => (title === undefined ? text : `${title}\n${text}`)),
      new AbortController().signal,
    ),
    TE.map((vectors) => ({
      search: (query, count, signal) =>
        pipe(
          vectorsOf([query], signal),
          TE.map(([requested = []]) =>
            vectors
              .map((vector, i) => ({ ...passages[i]!, score: dot(vector, requested) })) // one vector for each passage
              .sort((a, b) => b.score - a.score)
              .slice(0, count),
          ),
        ),
    })),
  )
}
