/** Configurations: the keys of the seed, overrides, and what is refused with which advice. */
import { readFileSync } from 'node:fs'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import type { RegistryOptions } from '../../../../src/modules/remote/chat/policyLookup.js'
import { inTurn } from '../../../../test/kit/arena.js'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { GAME_NAMES, gameNamed, loadGame } from '../../src/arena/config/games.js'
import { applyOverrides, mergeConfigs } from '../../src/arena/config/overrides.js'
import { type ArenaConfig, arenaConfig } from '../../src/arena/config/schema.js'
import { type SetupWorld, setUpArena } from '../../src/arena/config/setup.js'
import { runTournament } from '../../src/arena/matches/tournament.js'

const config = (given: object): ArenaConfig => {
  const checked = arenaConfig(given)
  if (E.isLeft(checked)) throw new Error(checked.left.reason)
  return checked.right
}

const problem = (given: object): string => {
  const checked = arenaConfig(given)
  return E.isLeft(checked) ? checked.left.reason : 'nothing'
}

const overridden = (...pairs: readonly string[]) => {
  const applied = applyOverrides({}, pairs)
  return E.isRight(applied) ? applied.right : applied.left.reason
}

/** Models by name answer with a legal-looking word. Keeps the options of each look-up. */
const world = (asked: [string, RegistryOptions][] = []): SetupWorld & { readonly closed: string[] } => {
  const closed: string[] = []
  return {
    closed,
    ask: async () => null,
    resolvePolicy: (name, options) => {
      asked.push([name, options])
      if (name === 'hf_nothing') return TE.left({ _tag: 'ModelFailure', reason: 'there is no such model' })
      return TE.right({ ...inTurn(name, ['[Pass]']), close: async () => void closed.push(name) })
    },
  }
}

describe('a configuration', () => {
  it('has the defaults of the seed', () => {
    expect(config({})).toMatchObject({
      ...{ num_episodes: 1, seed: 42, mode: 'llm_vs_random', log_level: 'INFO', tensorboard_logging: false },
      ...{ llm_backend: { max_tokens: 250, temperature: 0.1 }, illegal_move: { kind: 'random' }, parallel_episodes: 1 },
    })
  })

  it('takes every key of the seed', () => {
    const seed = {
      env_configs: [
        { game_name: 'kuhn_poker', max_game_rounds: null },
        { game_name: 'matrix_rps', max_game_rounds: 10 },
      ],
      ...{ num_episodes: 3, seed: 7, use_ray: false, mode: 'multi_agent', parallel_episodes: true },
      agents: {
        player_0: { type: 'llm', model: 'litellm_groq/llama3-8b-8192' },
        player_1: { type: 'random', seed: null },
      },
      llm_backend: {
        max_tokens: 99,
        temperature: 0.5,
        default_model: 'hf_gpt2',
        inference_backend: 'hybrid',
        timeout: 30,
      },
      ...{ log_level: 'DEBUG', tensorboard_logging: true, models: ['hf_gpt2', 'vllm_x'] },
    }
    expect(config(seed)).toMatchObject({ ...seed, parallel_episodes: 8 })
  })

  it('suggests the nearest key for an unknown one, at every depth', () => {
    expect(problem({ num_episode: 3 })).toContain("unknown key 'num_episode': did you mean 'num_episodes'?")
    expect(problem({ agents: { player_0: { modle: 'x' } } })).toContain("did you mean 'agents.player_0.model'?")
    expect(problem({ llm_backend: { max_token: 3 } })).toContain("did you mean 'llm_backend.max_tokens'?")
    expect(problem({ agents: { playr_0: {} } })).toContain('player_0, player_1, ...')
    expect(problem({ mode: 'llm_vs_llms', seed: 'x' })).toMatch(/mode: .*; seed: |seed: .*; mode: /)
  })

  it('refuses Ray and SLURM with the reason and the way out', () => {
    for (const given of [{ ray_config: { num_cpus: 4 } }, { use_ray: true }])
      expect(problem(given)).toMatch(/there is no Ray here; set parallel_episodes/)
    expect(problem({ slurm: {} })).toContain('call `tandem arena` in the job script')
  })

  it('has rules for illegal moves in short and in full', () => {
    const rule = (illegal_move: unknown) => config({ illegal_move }).illegal_move
    expect(rule('forfeit')).toEqual({ kind: 'forfeit' })
    expect(rule('retry')).toEqual({ kind: 'retry', attempts: 2, fallback: 'forfeit' })
    expect(rule({ kind: 'retry', attempts: 1, fallback: 'random' })).toEqual({
      kind: 'retry',
      attempts: 1,
      fallback: 'random',
    })
    expect(problem({ illegal_move: 'loss' })).toContain('illegal_move')
  })
})

describe('the configuration of the guide', () => {
  it('is valid, and its games can be planned', async () => {
    const [, example] = /```yaml\n([\s\S]*?)```/.exec(readFileSync('docs/guide/19-arena.md', 'utf8'))!
    const { plans } = await rightOf(setUpArena(config(parse(example!) as object), world()))
    expect(plans).toHaveLength(2 * 3 * 30)
  })
})

describe('overrides', () => {
  it('are typed: numbers stay numbers, and only true and false are booleans', () => {
    expect(
      overridden('a=1', 'b=0', 'c=0.5', 'd=1e-3', 'e=True', 'f=none', 'g=yes', 'h="1"', 'i=[1, 2]', 'j=a=b', 'k='),
    ).toEqual({
      ...{ a: 1, b: 0, c: 0.5, d: 0.001, e: true, f: null, g: 'yes', h: '1', i: [1, 2], j: 'a=b', k: '' },
    })
  })

  it('set keys with dots and elements of lists', () => {
    const before = { env_configs: [{ game_name: 'hex' }, { game_name: 'nim' }], agents: { player_0: { type: 'llm' } } }
    const applied = applyOverrides(before, [
      'env_configs.1.game_name=pig',
      'agents.player_0.model=hf_gpt2',
      'agents.player_1.type=random',
    ])
    expect(applied).toEqual(
      E.right({
        env_configs: [{ game_name: 'hex' }, { game_name: 'pig' }],
        agents: { player_0: { type: 'llm', model: 'hf_gpt2' }, player_1: { type: 'random' } },
      }),
    )
    expect(before.env_configs[1]!.game_name).toBe('nim')
  })

  it('need a key and a value', () => {
    for (const wrong of ['num_episodes', '=3', 'a..b=1']) expect(overridden(wrong)).toContain('expected KEY=VALUE')
  })

  it('go over configurations, which are merged by key', () => {
    expect(mergeConfigs({ a: { b: 1, c: [1] }, d: 1 }, { a: { c: [2] } })).toEqual({ a: { b: 1, c: [2] }, d: 1 })
  })

  it('cannot reach what records inherit', () => {
    expect(problem(applyOverrides({}, ['__proto__.polluted=1', 'constructor.x=1']) as never)).not.toBe('nothing')
    for (const path of ['agents.__proto__.x', 'agents.__proto__', '__proto__.x'])
      expect(overridden(`${path}=1`)).toContain(`unknown key '${path}'`)
    expect('polluted' in {}).toBe(false)
  })
})

describe('games by name', () => {
  it('are all there, with options in their name', () => {
    for (const name of GAME_NAMES) expect(gameNamed(name).name).toBe(name)
    const three = gameNamed('kuhn_poker', { players: 3 })
    expect([three.name, three.players]).toEqual(['kuhn_poker(players=3)', 3])
  })

  it('are refused with a suggestion, and so are their options', () => {
    const dilemma = gameNamed('repeated_game', { stage: 'stag_hunt', rounds: 4 })
    expect([dilemma.name, dilemma.players]).toEqual(['repeated_game(stage="stag_hunt",rounds=4)', 2])
    expect(() => gameNamed('repeated_game', { stage: 'matrix_pb' })).toThrow("did you mean 'matrix_pd'?")
    expect(() => gameNamed('repeated_game', { rounds: 'ten' })).toThrow('rounds must be a number')
    expect(() => gameNamed('chess')).toThrow('use loadGame')
    expect(() => gameNamed('tic_tac_to')).toThrow("unknown game 'tic_tac_to': did you mean 'tic_tac_toe'?")
    expect(() => gameNamed('connect_four', { column: 7 })).toThrow("did you mean 'columns'?")
    expect(() => gameNamed('tic_tac_toe', { size: 4 })).toThrow('the game has no options')
  })

  it('include chess, whose package is loaded when it is needed', async () => {
    const { games } = await rightOf(
      setUpArena(config({ env_name: 'chess', agents: { player_0: { type: 'random' } } }), world()),
    )
    expect(games.map(({ name, players }) => [name, players])).toEqual([['chess', 2]])
    await expect(loadGame('chess', { opening: 1 })()).rejects.toThrow("unknown option 'opening'")
  })
})

describe('players of a configuration', () => {
  const names = async (given: object) =>
    (await rightOf(setUpArena(config(given), world()))).players.map(({ name }) => name)

  it('are named after their models, and apart where names are equal', async () => {
    const twice = {
      mode: 'llm_vs_llm',
      agents: { player_0: { model: 'hf_gpt2' }, player_1: { type: 'random', model: 'hf_gpt2' } },
    }
    expect(await names(twice)).toEqual(['hf_gpt2 (player_0)', 'hf_gpt2 (player_1)'])
    expect(await names({ agents: { player_0: { type: 'random' }, player_1: { type: 'random' } } })).toEqual([
      'random (player_0)',
      'random (player_1)',
    ])
    expect(await names({ agents: { player_0: { name: 'Ann', type: 'minimax' } } })).toEqual(['Ann', 'random'])
  })

  it('are named after the end of the folder of their model', async () => {
    const models = [
      'hf_/home/me/runs/first/checkpoints/step-000010',
      'hf_./runs/a',
      'litellm_groq/llama-3.1-8b-instant',
    ]
    const named = await Promise.all(models.map((model) => names({ agents: { player_0: { type: 'llm', model } } })))
    expect(named.map(([first]) => first)).toEqual([
      'first/checkpoints/step-000010',
      'hf_./runs/a',
      'litellm_groq/llama-3.1-8b-instant',
    ])
  })

  it('get the default model and the prefix of the backend, and share limits and one policy by name', async () => {
    const asked: [string, RegistryOptions][] = []
    const shared = world(asked)
    const given = {
      mode: 'llm_vs_llm',
      llm_backend: { inference_backend: 'litellm', default_model: 'groq/llama3-8b-8192', max_tokens: 9, timeout: 5 },
      agents: { player_0: { max_requests_per_minute: 30 }, player_1: {} },
    }
    const setup = await rightOf(setUpArena(config(given), shared))
    expect(asked).toEqual([
      [
        'litellm_groq/llama3-8b-8192',
        { sampling: { maxNewTokens: 9, temperature: 0.1 }, limits: { maxRequestsPerMinute: 30, timeoutSeconds: 5 } },
      ],
    ])
    await setup.close()
    expect(shared.closed).toEqual(['litellm_groq/llama3-8b-8192'])
  })

  it('meet in the modes: matches of three, round robins, gauntlets, and each of a list of models', async () => {
    const matchups = async (given: object) => {
      const { plans } = await rightOf(setUpArena(config(given), world()))
      return [...new Set(plans.map(({ matchup }) => matchup))]
    }
    const three = { player_0: { type: 'mcts' }, player_1: { type: 'minimax' }, player_2: { type: 'random' } }
    const kuhn3 = { env_config: { game_name: 'kuhn_poker', players: 3 } }
    expect(await matchups({ mode: 'multi_agent', agents: three, ...kuhn3 })).toEqual(['mcts / minimax / random'])
    expect(await matchups({ mode: 'round_robin', agents: three })).toEqual([
      'mcts / minimax',
      'mcts / random',
      'minimax / random',
    ])
    expect(await matchups({ mode: 'gauntlet', agents: three })).toEqual(['mcts / minimax', 'mcts / random'])
    expect(await matchups({ models: ['hf_a', 'hf_b'] })).toEqual(['hf_a / random', 'hf_b / random'])
  })

  it('play solved tables, mixtures and scripted models', async () => {
    const agents = {
      player_0: {
        type: 'mixture',
        draw: 'move',
        parts: [{ type: 'cfr', iterations: 50, weight: 2 }, { type: 'random' }],
      },
      player_1: { model: 'scripted_[Pass]' },
    }
    const given = config({ mode: 'multi_agent', env_name: 'kuhn_poker', agents, num_episodes: 4 })
    const setup = await rightOf(setUpArena(given, world()))
    const { games } = await rightOf(runTournament({ plans: setup.plans, illegalMove: given.illegal_move }))
    expect(games).toHaveLength(4)
  })

  it('that cannot be had are a failure, and the others are closed', async () => {
    const agents = { player_0: { model: 'hf_fine' }, player_1: { model: 'hf_nothing' } }
    const shared = world()
    expect((await leftOf(setUpArena(config({ agents }), shared))).reason).toBe('there is no such model')
    expect(shared.closed).toEqual(['hf_fine'])
    const few = await leftOf(
      setUpArena(config({ mode: 'multi_agent', agents: { player_0: { type: 'random' } } }), world()),
    )
    expect(few.reason).toContain('has 2 seats, and there is 1 player')
    const wrong = await leftOf(setUpArena(config({ env_name: 'tic_tac_to' }), world()))
    expect(wrong.reason).toContain("did you mean 'tic_tac_toe'?")
  })
})
