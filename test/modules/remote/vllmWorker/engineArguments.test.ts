import { requireLeft, requireRight } from '@tandem-rl/testing'
import fc from 'fast-check'
import { isRight } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { diagnose } from '../../../../src/modules/remote/vllmWorker/diagnosis.js'
import { engineArguments, withEngineDefaults } from '../../../../src/modules/remote/vllmWorker/engineArguments.js'

const wordsOf = (rest: object): readonly string[] => requireRight(engineArguments({ model: 'm', ...rest }))

describe('engine arguments', () => {
  it('are flags, in camel case as with underscores', () => {
    expect(wordsOf({ maxModelLen: 64, gpu_memory_utilization: 0.5, dtype: 'float32' })).toEqual([
      ...['--max-model-len', '64', '--gpu-memory-utilization', '0.5', '--dtype', 'float32'],
    ])
    expect(wordsOf({ enableLora: true, enablePrefixCaching: false, seed: undefined, revision: null })).toEqual([
      ...['--enable-lora', '--no-enable-prefix-caching'],
    ])
  })

  it('are several words for lists and JSON for records, and JSON for the lists that vLLM reads so', () => {
    expect(wordsOf({ servedModelName: ['a', 'b'], loraModules: [{ name: 'x', path: '/y' }] })).toEqual([
      ...['--served-model-name', 'a', 'b', '--lora-modules', '{"name":"x","path":"/y"}'],
    ])
    expect(wordsOf({ ropeScaling: { factor: 2, type: 'linear' }, allowedOrigins: ['*'] })).toEqual([
      ...['--rope-scaling', '{"factor":2,"type":"linear"}', '--allowed-origins', '["*"]'],
    ])
  })

  it('of any names are passed on, one flag for each, with their values as they are', () => {
    const names = fc.uniqueArray(fc.stringMatching(/^[a-z]{3,8}([A-Z][a-z]{2,5})?$/), {
      maxLength: 5,
      selector: (name) => name.toLowerCase(),
    })
    const values = fc.oneof(
      fc.integer(),
      fc.boolean(),
      fc.string({ minLength: 1 }).filter((text) => !text.includes('\0')),
    )
    fc.assert(
      fc.property(names, fc.array(values, { minLength: 5, maxLength: 5 }), (given, list) => {
        const free = given.filter((name) => !['host', 'port', 'apiKey', 'model'].includes(name))
        const words = wordsOf(Object.fromEntries(free.map((name, i) => [name, list[i]])))
        const expected = free.flatMap((name, i) => {
          const flag = name.replace(/[A-Z]/, (letter) => `-${letter.toLowerCase()}`)
          const value = list[i]
          return value === true ? [`--${flag}`] : value === false ? [`--no-${flag}`] : [`--${flag}`, String(value)]
        })
        expect(words).toEqual(expected)
      }),
    )
  })

  it('that cannot be are refused, all at once', () => {
    const reason = requireLeft(
      engineArguments({ model: '', maxModelLen: Number.NaN, max_model_len: 3, port: 1, ropeScaling: { factor: '' } }),
    )
    for (const word of [
      'model must be a text',
      '--max-model-len is given twice',
      'maxModelLen must be a finite number, got NaN',
      'port is an option of the worker',
      'ropeScaling.factor',
    ]) {
      expect(reason).toContain(word)
    }
    expect(isRight(engineArguments({ model: '--rm' }))).toBe(false)
    expect(requireLeft(engineArguments({ model: 'm', 'a b': 1 }))).toContain("'a b' is not the name")
    expect(requireLeft(engineArguments({ model: 'm', api_key: 'secret' }))).not.toContain('secret')
  })

  it('take defaults that they do not name, in whatever spelling', () => {
    const defaults = { logprobsMode: 'raw_logprobs', generationConfig: 'vllm' } as const
    expect(withEngineDefaults({ model: 'm', logprobs_mode: 'processed_logprobs' }, defaults)).toEqual({
      ...{ model: 'm', logprobs_mode: 'processed_logprobs', generationConfig: 'vllm' },
    })
  })
})

describe('the log of a server that did not start', () => {
  it.each([
    ['port', 'OSError: [Errno 98] Address already in use'],
    ['memory', 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB'],
    ['memory', 'ValueError: Free memory on device (1/80 GiB) on startup is less than desired GPU memory utilization'],
    ['arguments', 'vllm: error: unrecognized arguments: --no-such-flag'],
    ['package', "ModuleNotFoundError: No module named 'torchvision'"],
    ['model', 'OSError: /no/model does not appear to have a file named config.json'],
    ['exit', 'something else'],
  ])('tells %s by: %s', (kind, line) => {
    expect(diagnose(['INFO starting', line, 'INFO ending']).kind).toBe(kind)
  })
})
