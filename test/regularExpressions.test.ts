/**
 * All regular expressions take linear time on any text. `recheck` analyzes every literal in `src`
 * and every expression that a module computes while it loads.
 */
import { check } from 'recheck'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { ALLOWED, type Expression, eachNode, literalsIn, parsedSources, written } from './kit/expressions.js'

const hasFunctionAbove = (node: ts.Node): boolean =>
  node.parent !== undefined && (ts.isFunctionLike(node.parent) || hasFunctionAbove(node.parent))

/** Returns `true` if a module computes an expression while it loads. */
const computes = (file: ts.SourceFile): boolean => {
  let answer = false
  eachNode(file, (node) => {
    answer ||= ts.isNewExpression(node) && node.expression.getText() === 'RegExp' && !hasFunctionAbove(node)
  })
  return answer
}

/** Returns the expressions that modules compute while they load. */
const computedIn = async (paths: readonly string[]): Promise<readonly Expression[]> => {
  const found: Expression[] = []
  const original = globalThis.RegExp
  for (const file of paths) {
    globalThis.RegExp = new Proxy(original, {
      construct: (target, args, newTarget) => {
        // A constructor returns an object of its class.
        const made = Reflect.construct(target, args, newTarget) as RegExp
        found.push({ file, source: made.source, flags: made.flags })
        return made
      },
    })
    try {
      await import(file)
    } finally {
      globalThis.RegExp = original
    }
  }
  return found
}

const unbounded = /[*+]|\{\d+,\}/

/** Checks an expression without time limits, so that results are equal on all machines. */
const verdictOn = async ({ source, flags }: Expression): Promise<string> => {
  const answer = await check(source, flags, { timeout: null, attackTimeout: null, incubationTimeout: null })
  return answer.status === 'vulnerable' ? `${answer.complexity.summary}: ${answer.attack.pattern}` : answer.status
}

const slowOnes = async (places: readonly Expression[]): Promise<readonly string[]> => {
  const different = new Map(places.map((place) => [written(place), place]))
  const slow: string[] = []
  for (const [text, place] of different) {
    if (!unbounded.test(place.source) || ALLOWED.has(text)) continue
    const verdict = await verdictOn(place)
    if (verdict !== 'safe') slow.push(`${place.file}: ${text}: ${verdict}`)
  }
  return slow
}

const files = parsedSources()

describe('the regular expressions of src take linear time', () => {
  it('that are written down', async () => {
    const literals = files.flatMap(literalsIn)
    expect(literals.length).toBeGreaterThan(200)
    expect(await slowOnes(literals)).toEqual([])
    const known = new Set(literals.map(written))
    expect([...ALLOWED.keys()].filter((text) => !known.has(text))).toEqual([])
  })

  it('that are computed when a module is loaded', async () => {
    const paths = files.filter(computes).map(({ fileName }) => fileName)
    const computed = await computedIn(paths)
    expect(computed.length).toBeGreaterThan(paths.length)
    expect(await slowOnes(computed)).toEqual([])
  })
})
