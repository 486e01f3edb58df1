/**
 * `tandem arena` as a process: the seed's command lines, three kinds of backend in one game, rate
 * limits, interruptions.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { EMBEDDED_MODEL } from '../../../src/live/embeddedModel.js'
import { parseJsonLines, tandem, tandemOk, useTemporaryFolder } from '../../../test/kit/runs.js'
import { startServe } from '../../../test/kit/serveProcess.js'
import type { GameRecord } from '../src/arena/matches/records.js'

const path = useTemporaryFolder()
const cwd = path('.')

/** A service with the form of OpenAI's API and a limit of requests: it refuses every third one. */
const openService = async () => {
  const models: string[] = []
  let [asked, refused] = [0, 0]
  const service: Server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text
    })
    request.on('end', () => {
      if (request.headers.authorization !== 'Bearer planted-key') {
        response.writeHead(401).end('{}')
        return
      }
      if (asked++ % 3 === 0) {
        refused++
        response.writeHead(429, { 'retry-after': '0' }).end('{"error":{"message":"slow down"}}')
        return
      }
      const { model, messages } = JSON.parse(body) as {
        readonly model: string
        readonly messages: readonly { readonly content: string }[]
      } // a chat request
      models.push(model)
      const [, action] = /Your actions: (\[[^\]]+\])/.exec(messages[0]!.content)!
      const message = { role: 'assistant', content: `The first one is as good as any. ${action}` }
      const choices = [{ index: 0, message, finish_reason: 'stop' }]
      const usage = { prompt_tokens: 50, completion_tokens: 10, total_tokens: 60 }
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model, choices, usage }))
    })
  })
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
  const { port } = service.address() as AddressInfo // a server on TCP has an address with a port
  return {
    ...{ service, models, url: `http://127.0.0.1:${port}/v1` },
    counts: () => ({ asked, refused }),
  }
}

let api: Awaited<ReturnType<typeof openService>>
beforeAll(async () => {
  api = await openService()
  writeFileSync(path('.env'), `LITELLM_BASE_URL=${api.url}\nLITELLM_API_KEY=planted-key\n`)
})
afterAll(() => api.service.close())

const gamesOf = (folder: string) =>
  parseJsonLines(readFileSync(path(`${folder}/games.jsonl`), 'utf8')) as unknown as readonly GameRecord[] // its own records

const yaml = (name: string, text: string): string => {
  writeFileSync(path(name), text)
  return name
}

const SEED = `
env_config:
  game_name: tic_tac_toe
  max_game_rounds: null
num_episodes: 1
seed: 42
use_ray: false
mode: llm_vs_random
agents:
  player_0:
    type: llm
    model: litellm_groq/llama3-8b-8192
  player_1:
    type: random
llm_backend:
  max_tokens: 250
  temperature: 0.1
  default_model: litellm_groq/llama3-8b-8192
log_level: INFO
`

describe("the seed's command lines", () => {
  it('several pairs in one --override: two models meet ten times', async () => {
    const config = yaml('config.yaml', SEED)
    const { stdout, stderr } = await tandemOk(
      [
        ...['arena', config, '--out', path('ten'), '--override', 'mode=llm_vs_llm'],
        ...['agents.player_0.model=litellm_groq/llama3-8b-8192', 'agents.player_1.model=litellm_groq/llama3-70b-8192'],
        ...['num_episodes=10', 'parallel_episodes=true'],
      ],
      { cwd },
    )
    expect(stdout).toContain('tic_tac_toe, 10 games')
    expect(stderr).toContain('10/10')
    const games = gamesOf('ten')
    expect(games).toHaveLength(10)
    expect(games.filter(({ seats }) => seats[0] === 'litellm_groq/llama3-8b-8192')).toHaveLength(5)
    expect(games[0]!.moves[0]).toMatchObject({
      ...{ by: 'player', reasoning: 'The first one is as good as any.' },
      usage: { promptTokens: 50, completionTokens: 10 },
    })
    const { refused, asked } = api.counts()
    expect(refused).toBeGreaterThan(asked / 4) // requests that were refused for their rate were sent again
    const results = readFileSync(path('ten/results.json'), 'utf8')
    expect(results + readFileSync(path('ten/report.html'), 'utf8') + stdout + stderr).not.toContain('planted-key')
  })

  it('--config, --base-config, --backend, --model, --max-tokens, --temperature and --log_level', async () => {
    const base = yaml('base.yaml', 'num_episodes: 7\nllm_backend:\n  temperature: 0.9\nseed: 3\n')
    const config = yaml('flags.json', JSON.stringify({ env_configs: [{ game_name: 'kuhn_poker' }], seed: 4 }))
    const { stdout } = await tandemOk(
      [
        ...['arena', '--config', config, '--base-config', base, '--backend', 'litellm', '--model', 'groq/x'],
        ...['--max-tokens', '150', '--temperature', '0.2', '--log_level', 'WARNING', '--print-config'],
        ...['--override', 'num_episodes=1', '--override', 'agents.player_1.type=mcts'],
      ],
      { cwd },
    )
    expect(JSON.parse(stdout)).toMatchObject({
      ...{ seed: 4, num_episodes: 1, log_level: 'WARNING', env_configs: [{ game_name: 'kuhn_poker' }] },
      llm_backend: { inference_backend: 'litellm', default_model: 'groq/x', max_tokens: 150, temperature: 0.2 },
      agents: { player_1: { type: 'mcts' } },
    })
  })

  it('several games, TensorBoard, a log level without lines, and no model at all', async () => {
    const config = yaml(
      'many.yaml',
      `env_configs: [{ game_name: matrix_rps }, { game_name: matrix_pd }, { game_name: tic_tac_toe }]
agents: { player_0: { type: random }, player_1: { type: random } }
num_episodes: 4
tensorboard_logging: true
log_level: WARNING
`,
    )
    const { stderr, stdout } = await tandemOk(['arena', config, '--out', path('many')], { cwd })
    expect(stderr).toBe('')
    for (const game of ['matrix_rps', 'matrix_pd', 'tic_tac_toe']) expect(stdout).toContain(`${game}, 4 games`)
    const { results } = { results: JSON.parse(readFileSync(path('many/results.json'), 'utf8')) as { games: object[] } } // its own file
    expect(results.games).toHaveLength(3)
  })

  it.each([
    [['--override', 'agents.player_0.modle=x'], "did you mean 'agents.player_0.model'?"],
    [['--override', 'env_config.game_name=tic_tac_to'], "did you mean 'tic_tac_toe'?"],
    [['--override', 'ray_config.num_cpus=4'], 'set parallel_episodes'],
    [['--ray-config', 'ray.yaml'], 'set parallel_episodes'],
    [['--override', 'num_episodes'], 'expected KEY=VALUE'],
    [['nowhere.yaml'], 'nowhere.yaml'],
    [['--override', 'agents.player_0.model=gpt-4'], 'litellm_'],
    [['--resume', 'nowhere'], 'no tournament in this folder'],
  ])('%j is refused with the way out, and nothing is written', async (args, said) => {
    const { code, stdout, stderr } = await tandem(
      ['arena', '--out', path('refused'), ...args].filter(
        (arg) => !(args[0] === '--resume' && (arg === '--out' || arg === path('refused'))),
      ),
      { cwd },
    )
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain(said)
    expect(stderr).not.toMatch(/^ +at /m) // no stack
  })
})

describe('three players', () => {
  it('of three kinds of backend meet in one game: in process, tandem serve, and a service with rate limits', async () => {
    const server = await startServe(EMBEDDED_MODEL, 'local')
    try {
      mkdirSync(path('registry'))
      writeFileSync(
        path('registry/vllm_models.yaml'),
        `models:\n  - name: vllm_local\n    url: ${server.url}/v1\n    description: the server of this test\n`,
      )
      writeFileSync(
        path('.env'),
        `LITELLM_BASE_URL=${api.url}\nLITELLM_API_KEY=planted-key\nVLLM_MODELS_PATH=registry/vllm_models.yaml\n`,
      )
      const config = yaml(
        'three.yaml',
        `env_config: { game_name: kuhn_poker, players: 3 }
mode: multi_agent
num_episodes: 3
parallel_episodes: 3
llm_backend: { max_tokens: 12, temperature: 1 }
illegal_move: { kind: retry, attempts: 1, fallback: random }
agents:
  player_0: { type: llm, model: hf_${EMBEDDED_MODEL}, name: in process }
  player_1: { type: llm, model: vllm_local }
  player_2: { type: llm, model: litellm_groq/llama3-8b-8192, price: { input: 1, output: 10 } }
`,
      )
      const { stdout } = await tandemOk(['arena', config, '--out', path('three')], { cwd })
      expect(stdout).toContain('kuhn_poker(players=3), 3 games')
      const games = gamesOf('three')
      expect(games.map(({ seats }) => seats.indexOf('in process')).sort()).toEqual([0, 1, 2])
      const results = JSON.parse(readFileSync(path('three/results.json'), 'utf8')) as {
        readonly games: readonly { readonly players: readonly Readonly<Record<string, unknown>>[] }[]
      } // its own file
      const { players } = results.games[0]!
      expect(players.map(({ name }) => name).sort()).toEqual([
        'in process',
        'litellm_groq/llama3-8b-8192',
        'vllm_local',
      ])
      for (const player of players) expect(player.completionTokens).toBeGreaterThan(0)
      const [service, ...models] = players.toSorted((a) => (a.name === 'litellm_groq/llama3-8b-8192' ? -1 : 1))
      expect(service).toMatchObject({ illegal: 0, cost: expect.closeTo(Number(service!.moves) * 150e-6, 9) })
      // The built-in model answers word problems: it cannot write an action, which is counted and
      // not hidden.
      for (const model of models) expect(model.fallbacks).toBe(model.moves)
    } finally {
      await server.stop()
    }
  })
})

describe('an interruption', () => {
  it('saves the games, and the same command continues after it and after a kill', async () => {
    const config = yaml(
      'long.yaml',
      `agents: { player_0: { type: mcts, simulations: 60 }, player_1: { type: mcts, simulations: 30, name: weak } }
num_episodes: 30
parallel_episodes: 2
`,
    )
    const args = (folder: string) => ['arena', config, '--out', path(folder), '--json']
    const whole = await tandemOk(args('whole'), { cwd })
    const isAt = (count: number) => (line: string) => line.includes(`"type":"game","done":${count},`)
    const stopped = await tandem(args('stopped'), { cwd, onLine: (line) => (isAt(5)(line) ? 'SIGINT' : undefined) })
    expect([stopped.code, stopped.stderr]).toEqual([130, expect.stringContaining('tandem arena --resume')])
    expect(JSON.parse(readFileSync(path('stopped/results.json'), 'utf8'))).toMatchObject({
      games: [{ game: 'tic_tac_toe' }],
    })
    const killed = await tandem(args('stopped'), { cwd, onLine: (line) => (isAt(12)(line) ? 'SIGKILL' : undefined) })
    expect(killed.signal).toBe('SIGKILL')
    await tandemOk(['arena', '--resume', path('stopped')], { cwd })
    const byId = (folder: string) =>
      gamesOf(folder)
        .map(({ id, history, returns }) => ({ id, history, returns }))
        .sort((a, b) => (a.id < b.id ? -1 : 1))
    expect(byId('stopped')).toEqual(byId('whole'))
    expect(whole.stdout).toContain('"type":"results"')
  })
})
