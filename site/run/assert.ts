/** The functions of `node:assert/strict` that programs of the guide use. */
import { isDeepStrictEqual } from './deepEqual.js'

const fail = (message: string | undefined, otherwise: string): never => {
  throw new Error(message ?? otherwise)
}

const text = (value: unknown): string => JSON.stringify(value) ?? String(value)

type Expected = RegExp | ((error: unknown) => boolean) | (abstract new (...given: never[]) => Error) | object

const checkThrown = (error: unknown, expected: Expected | undefined): void => {
  const message = error instanceof Error ? error.message : String(error)
  if (expected instanceof RegExp && !expected.test(message) && !expected.test(String(error)))
    fail(undefined, `the error '${message}' does not match ${expected}`)
}

const ok = (value: unknown, message?: string): void => {
  if (!value) fail(message, `expected a truthy value, got ${text(value)}`)
}

const equal = (actual: unknown, expected: unknown, message?: string): void => {
  if (!Object.is(actual, expected)) fail(message, `expected ${text(expected)}, got ${text(actual)}`)
}

const deepEqual = (actual: unknown, expected: unknown, message?: string): void => {
  if (!isDeepStrictEqual(actual, expected)) fail(message, `expected ${text(expected)}, got ${text(actual)}`)
}

const throws = (run: () => unknown, expected?: Expected): void => {
  let problem: { readonly error: unknown } | undefined
  try {
    run()
  } catch (error) {
    problem = { error }
  }
  if (problem === undefined) fail(undefined, 'expected an error')
  else checkThrown(problem.error, expected)
}

const rejects = async (run: Promise<unknown> | (() => Promise<unknown>), expected?: Expected): Promise<void> => {
  const settled = await (typeof run === 'function' ? run() : run).then(
    () => undefined,
    (error: unknown) => ({ error }),
  )
  if (settled === undefined) fail(undefined, 'expected a rejection')
  else checkThrown(settled.error, expected)
}

const match = (actual: string, expected: RegExp): void => {
  if (!expected.test(actual)) fail(undefined, `'${actual}' does not match ${expected}`)
}

const notEqual = (actual: unknown, other: unknown): void => {
  if (Object.is(actual, other)) fail(undefined, `expected another value than ${text(other)}`)
}

const notDeepEqual = (actual: unknown, other: unknown): void => {
  if (isDeepStrictEqual(actual, other)) fail(undefined, `expected another value than ${text(other)}`)
}

const assert = Object.assign(ok, {
  ok,
  equal,
  notEqual,
  deepEqual,
  notDeepEqual,
  throws,
  rejects,
  match,
  strictEqual: equal,
})

// biome-ignore lint/style/noDefaultExport: programs import the default export of `node:assert/strict`
export default assert
