/** What the command says of itself, and to people who mistype. */
import { describe, expect, it } from 'vitest'
import { DEFAULT_SETTINGS } from '../../src/run/settings.js'
import { tandem, tandemOk, useTemporaryFolder } from '../kit/runs.js'

const cwd = useTemporaryFolder()('.')

const kebab = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  train: [
    ...Object.keys(DEFAULT_SETTINGS).map(kebab),
    'merge',
    'tensorboard',
    'mlflow',
    'metrics-port',
    'metrics-host',
    'otel',
    'track-samples',
    'memory',
    'out',
    'replay',
    'sampler-threads',
    'resume',
    'model',
    'backend',
    'threads',
    'json',
    'help',
  ],
  eval: ['model', 'dataset', 'problems', 'max-new-tokens', 'batch', 'backend', 'threads', 'json', 'help'],
  sample: [
    ...['model', 'count', 'temperature', 'top-k', 'top-p', 'max-new-tokens', 'seed', 'backend', 'threads'],
    ...['json', 'help'],
  ],
  serve: [
    ...[
      'host',
      'port',
      'allowed-hosts',
      'served-model-name',
      'api-key',
      'allowed-origins',
      'dev',
      'enable-lora',
      'max-model-len',
    ],
    ...['max-num-seqs', 'kv-cache-bytes', 'max-logprobs', 'max-body-bytes', 'logprobs-mode', 'tool-call-parser'],
    ...['seed', 'shutdown-seconds', 'backend', 'threads', 'help'],
  ],
  doctor: ['model', 'backend', 'threads', 'json', 'help'],
}

/** The long options that a help text lists, each at the beginning of its line. */
const listed = (help: string): readonly string[] =>
  [...help.matchAll(/^ {2}(?:-\w, )?--([\w-]+)/gm)].map((match) => match[1]!)

/** The default of every setting that is not a file. */
const expectDefaults = (help: string): void => {
  const text = help.replaceAll(/\s+/g, ' ')
  for (const [name, value] of Object.entries(DEFAULT_SETTINGS).filter((entry) => entry[1] !== null))
    expect(text).toMatch(new RegExp(`--${kebab(name)} [^-]*\\(default: ${String(value)}\\)`))
}

describe('help', () => {
  it('of tandem lists every command', async () => {
    const { stdout } = await tandemOk(['--help'], { cwd })
    for (const name of Object.keys(COMMANDS)) expect(stdout).toMatch(new RegExp(`^ {2}${name} .*\\w`, 'm'))
  })

  it.each(Object.keys(COMMANDS))('of tandem %s lists every option, each once', async (name) => {
    const { stdout } = await tandemOk([name, '--help'], { cwd })
    expect([...listed(stdout)].sort()).toEqual([...COMMANDS[name]!].sort())
    if (name === 'train') expectDefaults(stdout)
  })
})

describe('a mistake on the command line', () => {
  it.each([
    [['train', '--lerning-rate', '1'], '--lerning-rate'],
    [['train', '--steps', '1.5'], '--steps'],
  ])('%j is named, and nothing is run', async (args, culprit) => {
    const { code, stdout, stderr } = await tandem(args, { cwd })
    expect(code).toBe(1)
    expect(stderr).toContain(culprit)
    expect(stderr).not.toMatch(/^ +at /m) // no stack
    expect(stdout).toBe('')
  })
})
