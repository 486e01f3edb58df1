/**
 * Every `@example` in the sources runs: lines `expression // value` must give that value, other
 * lines must not throw.
 */
import { readFileSync } from 'node:fs'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as Either from 'fp-ts/lib/Either.js'
import { none, some } from 'fp-ts/lib/Option.js'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { SOURCE_FOLDERS, typeScriptBelow } from '../../scripts/kit/workspace.js'
import { publicValues } from '../kit/doors.js'
import { useEngine } from '../kit/engine.js'

useEngine()

interface Example {
  readonly file: string
  readonly line: number
  readonly lines: readonly string[]
}

const sources = SOURCE_FOLDERS.flatMap(typeScriptBelow)

const examplesOf = (file: string): readonly Example[] => {
  const found: Example[] = []
  let open: string[] | undefined
  for (const [i, line] of readFileSync(file, 'utf8').split('\n').entries()) {
    const text = /^ \* ?(.*)$/.exec(line)?.[1]
    if (text === '@example') {
      open = []
      found.push({ file, line: i + 1, lines: open })
    } else if (text === undefined || text === '/' || text.startsWith('@')) open = undefined
    else open?.push(text)
  }
  return found
}

const names = await publicValues()
const examples = sources.flatMap(examplesOf)

/** Numbers may differ in the last printed digit; typed arrays count as arrays. */
const expectValue = (actual: unknown, expected: unknown): void => {
  const plain = (value: unknown): unknown => {
    if (ArrayBuffer.isView(value)) return Array.from(value as Float32Array, plain)
    if (typeof value === 'number' && !Number.isInteger(value)) return Number(value.toPrecision(4))
    if (Array.isArray(value)) return value.map(plain)
    if (typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype) {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]))
    }
    return value
  }
  expect(plain(actual)).toEqual(plain(expected))
}

/** The example as a function body that calls `check(actual, expected)`. */
const bodyOf = ({ lines }: Example): string => {
  const code = lines
    .map((line) => {
      const parts = /^(.*\S)\s+\/\/ (.*)$/.exec(line)
      return parts === null ? line : `check((${parts[1]}), (${parts[2]}))`
    })
    .join('\n')
  return ts.transpileModule(code, { compilerOptions: { target: ts.ScriptTarget.ES2022 } }).outputText
}

describe('the tag of an example', () => {
  it('has a line of its own', () => {
    const flowed = sources.flatMap((file) =>
      readFileSync(file, 'utf8')
        .split('\n')
        .flatMap((line, i) => (/^\s*\* ?@example\s+\S/.test(line) ? [`${file}:${i + 1}`] : [])),
    )
    expect(flowed).toEqual([])
  })
})

describe('examples in the documentation of the sources', () => {
  it('are found', () => {
    expect(examples.length).toBeGreaterThan(30)
  })

  it.each(examples.map((example) => [`${example.file}:${example.line}`, example] as const))(
    '%s',
    async (_, example) => {
      const module: Record<string, unknown> = await import(`../../${example.file}`)
      const scope: Record<string, unknown> = {
        tf,
        fc,
        Either,
        left: Either.left,
        right: Either.right,
        none,
        some,
        ...names,
        ...module,
        check: expectValue,
      }
      const run = new Function(...Object.keys(scope), bodyOf(example))
      tf.tidy(() => {
        run(...Object.values(scope))
      })
    },
  )
})
