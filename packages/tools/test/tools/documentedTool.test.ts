/** Tools whose schema is read from the types and the JSDoc of a function. */
import { readFileSync } from 'node:fs'
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { documentedTool } from '../../src/tools/documentedTool.js'

/**
 * Cuts a text.
 *
 * @param text what is cut
 * @param count - how many characters stay
 */
const cut = (text: string, count: number, side: 'left' | 'right' = 'left'): string =>
  side === 'left' ? text.slice(0, count) : text.slice(-count)

/** Adds numbers. */
async function total(numbers: readonly number[], options?: { round: boolean; unit?: string }): Promise<string> {
  const sum = numbers.reduce((a, b) => a + b, 0)
  return `${options?.round === true ? Math.round(sum) : sum}${options?.unit ?? ''}`
}

const agent = {
  /** Greets a person. */
  greet(name: string): string {
    return `Hello, ${name}`
  },
}

class Notebook {
  readonly #lines: string[] = []

  /**
   * Adds a line.
   * @param line the text of the line
   */
  async note(line: string): Promise<string> {
    this.#lines.push(line)
    return `${this.#lines.length} lines`
  }
}

const undocumented = (x: number): string => `${x}`
/** Has a type that JSON does not know. */
const strange = (when: Date): string => `${when}`

const source = readFileSync(new URL(import.meta.url), 'utf8')
const context = { state: null, key: keyFromSeed(0), signal: new AbortController().signal }
const made = async (run: (...args: never) => string | Promise<string>) =>
  orThrow(await documentedTool({ run, source })())

describe('documentedTool', () => {
  it('has the name, description and schema of the function', async () => {
    expect(await made(cut)).toMatchObject({
      name: 'cut',
      description: 'Cuts a text.',
      parameters: {
        properties: {
          text: { type: 'string', description: 'what is cut' },
          side: { anyOf: [{ const: 'left' }, { const: 'right' }] },
        },
        required: ['text', 'count'],
      },
    })
  })

  it('calls the function with its arguments by name, also one that is asynchronous or a method', async () => {
    const call = async (run: Parameters<typeof made>[0], args: object) =>
      orThrow(await (await made(run)).call(args as never, context)()).content // arguments as JSON
    expect(await call(cut, { side: 'right', count: 3, text: 'abcdef' })).toBe('def')
    expect(await call(total, { numbers: [1, 2.6], options: { round: true } })).toBe('4')
    expect(await call(agent.greet, { name: 'Ada' })).toBe('Hello, Ada')
    expect(await (await made(cut)).call({ text: 1 } as never, context)()).toMatchObject({ left: { kind: 'arguments' } })
  })

  it('calls a method on its object, given as self or bound', async () => {
    const notebook = new Notebook()
    const given = orThrow(await documentedTool({ run: notebook.note, self: notebook, source })())
    const bound = await made(notebook.note.bind(notebook))
    for (const each of [given, bound])
      expect(each).toMatchObject({
        ...{ name: 'note', description: 'Adds a line.' },
        parameters: { properties: { line: { type: 'string', description: 'the text of the line' } } },
      })
    expect(orThrow(await given.call({ line: 'a' } as never, context)()).content).toBe('1 lines') // arguments as JSON
    expect(orThrow(await bound.call({ line: 'b' } as never, context)()).content).toBe('2 lines') // arguments as JSON
    const alone = await (await made(notebook.note)).call({ line: 'c' } as never, context)() // arguments as JSON
    expect(alone).toMatchObject({ left: { kind: 'failed' } })
  })

  it('names what the source lacks', async () => {
    const elsewhere = function elsewhere(): string {
      return ''
    }
    const results = [undocumented, strange, elsewhere].map((run) =>
      documentedTool({ run, source: source.replaceAll('elsewhere', 'x') })(),
    )
    expect(await Promise.all(results)).toMatchObject([
      { left: { reason: "the function 'undocumented': it has no description in JSDoc" } },
      { left: { reason: "the function 'strange': the type of its parameter 'when' has no JSON schema: Date" } },
      { left: { reason: "the function 'elsewhere': it is not in the source" } },
    ])
    const none = await documentedTool({ run: cut, source, load: () => Promise.reject(new Error('gone')) })()
    expect(none).toMatchObject({ left: { package: 'typescript' } })
  })

  it('names the package that has a compiler API if the installed TypeScript has none', async () => {
    const made = await documentedTool({ run: cut, source, load: () => import('typescript-7') })()
    expect(made).toMatchObject({
      left: { reason: expect.stringContaining("'cut': TypeScript 7.0.2 has no compiler API: npm install @typescript") },
    })
  })
})
