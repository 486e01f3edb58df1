/**
 * Regular expressions take linear time whatever text they meet: `recheck` analyses every literal of `src`, and every expression that a module
 * computes while it is loaded.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { check } from 'recheck'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'

interface Place {
  readonly file: string
  readonly source: string
  readonly flags: string
}

/** Expressions that are not of linear time, and why that does no harm. */
const ALLOWED: Readonly<Record<string, string>> = {
  [String.raw`/\/+$/`]: 'the address of a weight receiver, from the settings of the program itself',
  [String.raw`/[.\s]+$/`]: 'the last 500 characters of a reply at most',
  [String.raw`/\(?((?:file:\/\/|node:|\/|[A-Za-z]:[\\/])[^()]*:\d+:\d+)\)?$/`]: 'a line of the stack of this process',
  [String.raw`/^([+-]?)0*(\d*)(?:\.(\d*?)0*)?$/`]:
    'a number of an answer: to be mended with gsm8kReward (issue 19, 16)',
}

const files = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .map((path) => join('src', path))
  .map((path) => ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ES2022, true))

const isRegExpCall = (node: ts.Node): boolean =>
  (ts.isNewExpression(node) || ts.isCallExpression(node)) && node.expression.getText() === 'RegExp'

const hasFunctionAbove = (node: ts.Node): boolean =>
  node.parent !== undefined && (ts.isFunctionLike(node.parent) || hasFunctionAbove(node.parent))

/** The literals of a file, and the calls of RegExp in it. */
const expressionsOf = (
  file: ts.SourceFile,
): { readonly literals: readonly Place[]; readonly calls: readonly ts.Node[] } => {
  const literals: Place[] = []
  const calls: ts.Node[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf('/')
      literals.push({ file: file.fileName, source: node.text.slice(1, end), flags: node.text.slice(end + 1) })
    }
    if (isRegExpCall(node)) calls.push(node)
    ts.forEachChild(node, visit)
  }
  visit(file)
  return { literals, calls }
}

/** What modules compute while they are loaded. */
const computedIn = async (paths: readonly string[]): Promise<readonly Place[]> => {
  const found: Place[] = []
  const original = globalThis.RegExp
  for (const file of paths) {
    globalThis.RegExp = new Proxy(original, {
      construct: (target, args, newTarget) => {
        // What a constructor gives is an object of its class.
        const made = Reflect.construct(target, args, newTarget) as RegExp
        found.push({ file, source: made.source, flags: made.flags })
        return made
      },
    })
    try {
      await import(resolve(file))
    } finally {
      globalThis.RegExp = original
    }
  }
  return found
}

const unbounded = /[*+]|\{\d+,\}/

/** No limit of time: the same expression gives the same answer on any machine. */
const verdictOn = async ({ source, flags }: Place): Promise<string> => {
  const answer = await check(source, flags, { timeout: null, attackTimeout: null, incubationTimeout: null })
  return answer.status === 'vulnerable' ? `${answer.complexity.summary}: ${answer.attack.pattern}` : answer.status
}

const slowOnes = async (places: readonly Place[]): Promise<readonly string[]> => {
  const different = new Map(places.map((place) => [`/${place.source}/${place.flags}`, place]))
  const slow: string[] = []
  for (const [text, place] of different) {
    if (!unbounded.test(place.source) || text in ALLOWED) continue
    const verdict = await verdictOn(place)
    if (verdict !== 'safe') slow.push(`${place.file}: ${text}: ${verdict}`)
  }
  return slow
}

const found = files.map((file) => ({ file: file.fileName, ...expressionsOf(file) }))

describe('the regular expressions of src take linear time', () => {
  it('that are written down', async () => {
    const literals = found.flatMap(({ literals: some }) => some)
    expect(literals.length).toBeGreaterThan(200)
    expect(await slowOnes(literals)).toEqual([])
    const written = new Set(literals.map(({ source, flags }) => `/${source}/${flags}`))
    expect(Object.keys(ALLOWED).filter((text) => !written.has(text))).toEqual([])
  })

  it('that are computed when a module is loaded', async () => {
    const paths = found.filter(({ calls }) => calls.some((call) => !hasFunctionAbove(call))).map(({ file }) => file)
    const computed = await computedIn(paths)
    expect(computed.length).toBeGreaterThan(paths.length)
    expect(await slowOnes(computed)).toEqual([])
  })
})
