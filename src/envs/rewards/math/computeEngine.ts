/** A second opinion on answers: @cortex-js/compute-engine. */
import { optionalPackage, type PackageFailure } from '@tandem-rl/base'
import { importPackage } from '@tandem-rl/base/host'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { exactOf } from './exact.js'
import type { Opinion } from './mathReward.js'
import { parseAnswer } from './parse.js'
import { anyNode, type MathTree } from './tree.js'

/** Maximum length of an answer that is passed to it, in UTF-16 units. */
const LONGEST = 200

/**
 * Returns true if an answer can be computed in bounded time: it has no factorial and no power in an
 * exponent.
 */
const isTame = (text: string): boolean => {
  const tree = text.length > LONGEST ? undefined : parseAnswer(text)
  const isWild = (node: MathTree): boolean =>
    (node._tag === 'Call' && (node.name === 'factorial' || node.name === 'binom')) ||
    (node._tag === 'Power' && anyNode(node.exponent, ({ _tag }) => _tag === 'Power'))
  return tree !== undefined && !anyNode(tree, isWild) && exactOf(tree) !== undefined
}

/**
 * Makes a second opinion from @cortex-js/compute-engine: whether two LaTeX answers are equal
 * expressions. It is used only if you pass it, `mathReward({ secondOpinion })`, so that no score
 * depends on the installed packages.
 *
 * Errors   `Left(PackageFailure)` if the package is missing. The opinion is undefined for texts
 *          that are long or cannot be parsed, whose value may be too large to compute, or that the
 *          package cannot decide.
 * Effects  imports the package.
 *
 * @example
 * computeEngineOpinion()
 */
export const computeEngineOpinion = (): TE.TaskEither<PackageFailure, Opinion> =>
  pipe(
    optionalPackage('@cortex-js/compute-engine', 'a second opinion on answers', () =>
      importPackage<typeof import('@cortex-js/compute-engine')>('@cortex-js/compute-engine', import.meta),
    ),
    TE.map(({ ComputeEngine }): Opinion => {
      const engine = new ComputeEngine()
      return (a, b) => {
        if (!isTame(a) || !isTame(b)) return undefined
        engine.pushScope() // keeps assumptions about the letters of one question out of the next
        try {
          const [x, y] = [engine.parse(a), engine.parse(b)]
          return x.isValid && y.isValid ? x.isEqual(y) : undefined
        } catch {
          return undefined // it throws for expressions that it cannot compute
        } finally {
          engine.popScope()
        }
      }
    }),
  )
