/** Adapters by the commands: trained, then named wherever a model is named. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { compiled } from '../kit/compiled.js'
import {
  gsm8kLines,
  parseJsonLines,
  SMALL_FLAGS,
  tandem,
  tandemOk,
  useTemporaryFolder,
  writeAnsweringModel,
} from '../kit/runs.js'

const path = useTemporaryFolder()
const cwd = path('.')
const RUN = 'runs/sft'

/** An adapter whose settings name no base. */
const BARE = 'adapters/bare'

const trained = (...args: readonly string[]) => tandemOk(['train', ...SMALL_FLAGS, ...args], { cwd })

const greedy = async (...args: readonly string[]): Promise<readonly unknown[]> => {
  const sampling = ['--count', '1', '--temperature', '0', '--max-new-tokens', '8', '--threads', '1', '--json']
  const { stdout } = await tandemOk(['sample', 'How many?', ...sampling, ...args], { cwd })
  return parseJsonLines(stdout).map(({ tokens, logProb }) => [tokens, Number(logProb).toFixed(3)])
}

beforeAll(async () => {
  await writeAnsweringModel(path('model'))
  writeFileSync(path('rows.jsonl'), gsm8kLines(20))
  await trained('--dataset', 'rows.jsonl', '--model', 'model', '--lora-rank', '2', '--learning-rate', '1', '--out', RUN)
  mkdirSync(path(BARE), { recursive: true })
  cpSync(path(`${RUN}/adapter`), path(BARE), { recursive: true })
  const config = path(`${BARE}/adapter_config.json`)
  const { base_model_name_or_path: _, ...rest } = JSON.parse(readFileSync(config, 'utf8')) as Readonly<
    Record<string, unknown>
  > // PEFT's form
  writeFileSync(config, JSON.stringify(rest))
})

const children: (() => void)[] = []
afterAll(() => {
  for (const stop of children) stop()
})

describe('a run of an adapter', () => {
  it('is sampled with its base, which it names by an absolute path, and so is its merged folder', async () => {
    const config = readFileSync(path(`${RUN}/adapter/adapter_config.json`), 'utf8')
    expect(JSON.parse(config)).toMatchObject({ base_model_name_or_path: path('model') })
    const [base, adapted] = [await greedy('--model', 'model'), await greedy('--model', RUN)]
    expect(adapted).not.toEqual(base)
    const { stdout } = await tandemOk(['merge', RUN, 'merged', '--threads', '1'], { cwd })
    expect(stdout).toMatch(/^merged .*checkpoints\/step-\d+ into .*\/merged\n$/)
    expect(await greedy('--model', 'merged')).toEqual(adapted)
    const again = await tandem(['merge', RUN, 'merged'], { cwd })
    expect([again.code, again.stderr]).toEqual([1, 'tandem: merged exists: name a new folder\n'])
  })

  it('is trained further, evaluated and described, like a model', async () => {
    await trained('--model', RUN, '--steps', '1', '--out', 'runs/next', '--lora-rank', '2')
    expect(JSON.parse(readFileSync(path('runs/next/adapter/adapter_config.json'), 'utf8'))).toMatchObject({
      base_model_name_or_path: path(RUN),
    })
    await trained('--model', 'runs/next', '--steps', '1', '--max-lag', '1', '--out', 'runs/third')
    await tandemOk(['eval', 'runs/next', '--threads', '1'], { cwd })
    await tandemOk(['doctor', '--model', RUN, '--threads', '1'], { cwd })
  })

  it('is served', async () => {
    const args = [
      compiled('src/cli/main.ts'),
      'serve',
      RUN,
      '--port',
      '0',
      '--threads',
      '1',
      '--served-model-name',
      'm',
    ]
    const child = spawn(process.execPath, args, { cwd, stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(() => child.kill('SIGKILL'))
    const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
    const response = await fetch(`${line.split(' at ')[1]}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', prompt: 'How many?', max_tokens: 2, temperature: 0 }),
    })
    expect(response.status).toBe(200)
  })
})

describe('--adapter', () => {
  it('adds an adapter to the model of sample, merge and train', async () => {
    const expected = await greedy('--model', RUN)
    expect(await greedy('--model', 'model', '--adapter', BARE)).toEqual(expected)
    expect(await greedy('--model', `model+${BARE}`)).toEqual(expected)
    await tandemOk(['merge', 'model', 'merged-too', '--adapter', BARE, '--threads', '1'], { cwd })
    expect(await greedy('--model', 'merged-too')).toEqual(expected)
    const { stdout } = await tandemOk(['train', '--model', 'model', '--adapter', BARE, '--print-config'], { cwd })
    expect(JSON.parse(stdout)).toMatchObject({ model: `${path('model')}+${path(BARE)}` })
  })

  it.each([
    [['sample', 'Hi?', '--model', BARE], /names no base model: name the model and the adapter/],
    [['merge', 'model', 'never'], /^tandem: model has no adapter to merge; name one with --adapter$/],
    [
      ['sample', 'Hi?', '--model', 'model', '--adapter', 'nowhere'],
      /^tandem: the model .*\+nowhere cannot be used: there is no such folder, no such adapter after the \+, and/,
    ],
  ])('%j is refused with the way out', async (args, reason) => {
    const { code, stderr } = await tandem(args, { cwd })
    expect(code).toBe(1)
    expect(stderr.trim()).toMatch(reason)
  })
})
