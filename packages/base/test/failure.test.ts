import { toolFailure } from '@tandem-rl/tools'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { expect, describe as group, it } from 'vitest'
import { envFailure } from '../../../src/envs/base/env.js'
import { runFolderFailure } from '../../../src/run/store/runFolder.js'
import {
  asError,
  describe,
  errorMessage,
  type Failure,
  FailureError,
  fileFailure,
  modelFailure,
  namedMessage,
  orThrow,
} from '../src/failure.js'
import { rowFailure } from '../src/rowFailure.js'

/** Failures as they are made, with fields beside the two that all have. */
const of = <F extends Failure>(failure: F): Failure => failure

const reasons = fc.string({ minLength: 1, maxLength: 30 })

const anyFailure: fc.Arbitrary<Failure> = fc.letrec<{ failure: Failure }>((tie) => ({
  failure: fc.oneof(
    { depthSize: 'small', maxDepth: 4 },
    fc.record({ _tag: fc.constantFrom('ConfigFailure', 'TemplateFailure', 'PolicyFailure'), reason: reasons }),
    fc.record({ _tag: fc.constant('EnvFailure'), where: reasons, reason: reasons, cause: tie('failure') }),
    fc.record({ _tag: fc.constant('Other'), reason: reasons, cause: tie('failure') }),
  ),
})).failure

/** The reasons on the way down to the first cause. */
const chainOf = (failure: Failure): readonly string[] => {
  const { cause } = failure as { readonly cause?: Failure } // as `anyFailure` makes them
  return [failure.reason, ...(cause === undefined ? [] : chainOf(cause))]
}

group('describe', () => {
  it.each([
    [
      'a file that cannot be read, with the operation and the path',
      fileFailure('read', 'a/b.json', { code: 'ENOENT', reason: 'there is no such file' }),
      'could not read a/b.json: there is no such file',
    ],
    [
      'a malformed file by its path',
      of({ _tag: 'FormatFailure', format: 'safetensors', where: 'a.safetensors', reason: 'the header is not JSON' }),
      'a.safetensors: the header is not JSON',
    ],
    [
      'malformed bytes by the reason',
      of({ _tag: 'FormatFailure', format: 'safetensors', reason: 'the header is not JSON' }),
      'the header is not JSON',
    ],
    [
      'a model folder',
      modelFailure('models/x', 'there is no such folder'),
      'the model models/x cannot be used: there is no such folder',
    ],
    [
      'a model folder and the file in it',
      modelFailure('models/x', 'hidden_size is missing', 'config.json'),
      'the model models/x cannot be used: config.json: hidden_size is missing',
    ],
    [
      'a row of a data set by its line',
      rowFailure('train.jsonl', { first: { row: 3, reason: 'question: expected string' } }),
      'train.jsonl, line 3: question: expected string',
    ],
    [
      'a row of a table by its number',
      rowFailure('train.parquet', { first: { row: 3, reason: 'question: expected string' }, unit: 'row' }),
      'train.parquet, row 3: question: expected string',
    ],
    ['a run folder', runFolderFailure('runs/1', 'it holds another run'), 'runs/1: it holds another run'],
    ['a tool', toolFailure('search', 'failed', 'no answer'), "the tool 'search': no answer"],
    [
      'an environment with the cause of its failure',
      envFailure('ChatEnv', 'no task', rowFailure('gsm8k', { first: { row: 7, reason: 'no answer' } })),
      'ChatEnv: no task: gsm8k, line 7: no answer',
    ],
    ['any other failure by its reason', of({ _tag: 'NewFailure', reason: 'the moon is full' }), 'the moon is full'],
  ])('names %s', (_, failure, sentence) => {
    expect(describe(failure)).toBe(sentence)
  })

  it('lists every reason down to the first cause, without repeats', () => {
    const law = fc.property(anyFailure, (failure) => {
      const text = describe(failure)
      for (const reason of chainOf(failure)) expect(text).toContain(reason)
      expect(describe({ _tag: 'Wrapper', reason: failure.reason, cause: failure } as Failure)).toBe(failure.reason)
    })
    fc.assert(law)
  })

  it.each([[null], ['text'], [{ _tag: 'X' }], [{ reason: 'no tag' }], [{ _tag: 'X', reason: 5 }]])(
    'ignores a cause that is no failure: %j',
    (cause) => {
      expect(describe(of({ _tag: 'Other', reason: 'it failed', cause }))).toBe('it failed')
    },
  )
})

group('FailureError and orThrow', () => {
  it('the exception is an Error with the sentence and the failure', () => {
    const failure: Failure = rowFailure('s', { first: { row: 1, reason: 'bad' } })
    const error = new FailureError(failure)
    expect(error).toBeInstanceOf(Error)
    expect(error.failure).toBe(failure)
    expect(String(error)).toBe('FailureError: s, line 1: bad')
  })

  it('a value comes through unchanged, a failure becomes the exception', () => {
    const law = fc.property(fc.anything(), anyFailure, (value, failure) => {
      expect(orThrow(E.right(value))).toBe(value)
      expect(() => orThrow(E.left(failure))).toThrow(new FailureError(failure))
    })
    fc.assert(law)
  })

  it('a task is run once, and a promise is awaited', async () => {
    const law = fc.asyncProperty(fc.anything(), anyFailure, async (value, failure) => {
      let runs = 0
      const task = async () => {
        runs++
        return E.right([value])
      }
      expect(await orThrow(task)).toEqual([value])
      expect(runs).toBe(1)
      expect(await orThrow(Promise.resolve(E.right([value])))).toEqual([value])
      await expect(orThrow(async () => E.left(failure))).rejects.toThrow(new FailureError(failure))
      await expect(orThrow(Promise.resolve(E.left(failure)))).rejects.toThrow(new FailureError(failure))
    })
    await fc.assert(law)
  })
})

group('the text of what was thrown', () => {
  const thrown = new TypeError('x is not a function')

  it('is the message of an exception, with its class where that is asked for', () => {
    expect(errorMessage(thrown)).toBe('x is not a function')
    expect(namedMessage(thrown)).toBe('TypeError: x is not a function')
    expect(asError(thrown)).toBe(thrown)
  })

  it.each([
    ['broken', 'broken'],
    [null, 'null'],
    [undefined, 'undefined'],
  ])('is that of the value itself for %j, which is not an error', (value, text) => {
    expect(errorMessage(value)).toBe(text)
    expect(namedMessage(value)).toBe(text)
    expect(asError(value).message).toBe(text)
  })
})
