/**
 * The machine of overlapped training: what it draws, takes, drops and waits for, under any order of
 * events.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type GivenRules,
  type OverlapState,
  overlapPosition,
  overlapState,
} from '../../../src/collectors/overlap/overlapState.js'
import {
  isOver,
  type OverlapAction,
  type OverlapEvent,
  overlapStep,
  type TrainedTask,
} from '../../../src/collectors/overlap/overlapStep.js'

/** A world around the machine: what it asked for and has not been told the end of. */
interface World {
  state: OverlapState
  /** Updates before the start. */
  readonly first: number
  readonly sampling: Map<number, number>
  training: readonly TrainedTask[] | null
  pushing: number | null
  /** All that was learned from. */
  readonly steps: (readonly TrainedTask[])[]
  readonly drawn: number[]
  readonly left: number[]
}

const obey = (world: World, action: OverlapAction): void => {
  switch (action._tag) {
    case 'Sample':
      world.drawn.push(action.task)
      world.sampling.set(action.task, world.state.serving)
      break
    case 'Cancel':
      world.sampling.delete(action.task)
      world.left.push(action.task)
      break
    case 'Discard':
      world.left.push(action.task)
      break
    case 'Train':
      expect(world.training).toBeNull()
      world.training = action.tasks
      world.steps.push(action.tasks)
      break
    case 'Push':
      expect(world.pushing).toBeNull()
      world.pushing = action.version
  }
}

const tell = (world: World, event: OverlapEvent): void => {
  const [state, actions] = overlapStep(world.state, event)
  world.state = state
  for (const action of actions) obey(world, action)
}

const worldOf = (state: OverlapState): World => {
  const world: World = {
    ...{ state, first: state.version, sampling: new Map(), training: null, pushing: null },
    ...{ steps: [], drawn: [], left: [] },
  }
  tell(world, { _tag: 'Begun' })
  return world
}

/** Something that can happen next, chosen by a number; undefined if nothing can. */
const happen = (world: World, luck: number, faults: 'none' | 'some'): OverlapEvent | undefined => {
  const events: OverlapEvent[] = []
  for (const [task, since] of world.sampling) {
    const oldest = since + (luck % (world.state.serving - since + 1))
    const signal = faults === 'some' && luck % 5 === 0 ? 'no' : 'yes'
    events.push({ _tag: 'Sampled', task, oldest, signal })
    if (faults === 'some' && luck % 7 === 0) events.push({ _tag: 'Failed', task })
  }
  if (world.training !== null) events.push({ _tag: 'Trained' })
  if (world.pushing !== null) events.push({ _tag: 'Pushed', version: world.pushing })
  return events[luck % Math.max(1, events.length)]
}

const react = (world: World, event: OverlapEvent): void => {
  if (event._tag === 'Sampled' || event._tag === 'Failed') world.sampling.delete(event.task)
  if (event._tag === 'Trained') world.training = null
  if (event._tag === 'Pushed') world.pushing = null
  tell(world, event)
}

const someRules = fc
  .record({
    groups: fc.integer({ min: 1, max: 4 }),
    maxLag: fc.integer({ min: 0, max: 3 }),
    stale: fc.constantFrom('wait' as const, 'drop' as const, 'correct' as const),
    more: fc.integer({ min: -3, max: 6 }),
    lastVersion: fc.integer({ min: 0, max: 6 }),
    tasks: fc.constantFrom(7, 30, Number.POSITIVE_INFINITY),
    refills: fc.integer({ min: 0, max: 3 }),
  })
  .map(({ more, ...rules }): GivenRules => {
    const ahead = Math.max(rules.groups, (rules.maxLag + 1) * rules.groups + more)
    return { ...rules, ahead, maxFailureShare: 1 }
  })

/** Checks the invariants after every event. */
const check = ({ state, first, sampling, training, drawn, steps }: World): void => {
  const { rules, live, counts, version } = state
  const lost = Object.values(counts.dropped).reduce((sum, n) => sum + n, 0)
  expect(counts.trained + lost + live.size).toBe(drawn.length)
  expect(new Set(drawn).size).toBe(drawn.length)
  expect(live.size).toBeLessThanOrEqual(rules.ahead)
  if (rules.stale === 'wait') expect(live.size).toBeLessThanOrEqual((rules.maxLag + 1) * rules.groups)
  expect([...live].flatMap(([task, { stage }]) => (stage === 'sampling' ? [task] : [])).sort()).toEqual(
    [...sampling.keys()].sort(),
  )
  const inTraining = [...live].flatMap(([task, { stage }]) => (stage === 'training' ? [task] : []))
  expect(inTraining.sort()).toEqual((training ?? []).map(({ task }) => task).sort())
  expect(steps.length).toBe(version - first + (training === null ? 0 : 1))
  for (const { lag } of steps.at(-1) ?? []) {
    expect(lag).toBeGreaterThanOrEqual(0)
    if (rules.stale !== 'correct') expect(lag).toBeLessThanOrEqual(rules.maxLag)
  }
}

const luckOf = fc.array(fc.nat(1000), { minLength: 1, maxLength: 40 })

/** Lets things happen until nothing more comes. */
const runOn = (world: World, luck: readonly number[], faults: 'none' | 'some'): void => {
  for (let i = 0; i < 2000 && !(isOver(world.state) && world.pushing === null); i++) {
    const event = happen(world, luck[i % luck.length]! + i, faults)
    expect(event, 'nothing can happen, and the end has not come').toBeDefined()
    react(world, event!)
    check(world)
  }
}

describe('overlapStep', () => {
  it('law: every task drawn is learned from once, dropped with a cause or underway; never too old, never too many', () => {
    fc.assert(
      fc.property(someRules, luckOf, (rules, luck) => {
        const world = worldOf(overlapState(rules))
        check(world)
        runOn(world, luck, 'some')
        expect(isOver(world.state)).toBe(true)
        const learned = world.steps.flat().map(({ task }) => task)
        expect(new Set(learned).size).toBe(learned.length)
        expect(learned.length).toBe(world.state.counts.trained)
        expect(world.state.live.size).toBe(0)
      }),
      { numRuns: 300 },
    )
  })

  it('law: who waits drops nothing, and every step has as many groups as it should', () => {
    fc.assert(
      fc.property(someRules, luckOf, (given, luck) => {
        const rules = { ...given, stale: 'wait' as const, tasks: Number.POSITIVE_INFINITY }
        const world = worldOf(overlapState(rules))
        runOn(world, luck, 'none')
        expect(world.state.counts.dropped).toEqual({ stale: 0, failed: 0, filtered: 0 })
        expect(world.steps.map((tasks) => tasks.length)).toEqual(Array(rules.lastVersion).fill(rules.groups))
        expect(world.drawn.length).toBe(rules.groups * rules.lastVersion!)
      }),
      { numRuns: 200 },
    )
  })

  it('law: with maxLag 0 each step learns from the next tasks in order, all of its own version', () => {
    fc.assert(
      fc.property(someRules, luckOf, (given, luck) => {
        const rules = { ...given, maxLag: 0, ahead: given.groups, tasks: Number.POSITIVE_INFINITY }
        const world = worldOf(overlapState(rules))
        runOn(world, luck, 'none')
        expect(world.steps.flat()).toEqual(world.drawn.map((task) => ({ task, lag: 0 })))
        expect(world.drawn).toEqual(world.drawn.map((_, i) => i))
      }),
    )
  })

  it('law: a run that is stopped anywhere and resumes trains on every task once', () => {
    fc.assert(
      fc.property(someRules, luckOf, fc.nat(30), (given, luck, when) => {
        const rules = { ...given, stale: 'wait' as const, tasks: Number.POSITIVE_INFINITY, lastVersion: 6 }
        const first = worldOf(overlapState(rules))
        for (let i = 0; i < when && !isOver(first.state); i++) {
          const event = happen(first, luck[i % luck.length]! + i, 'none')
          if (event !== undefined) react(first, event)
        }
        tell(first, { _tag: 'Stopped' })
        expect(first.sampling.size).toBe(0)
        const done = first.steps.slice(0, first.state.version).flat()
        const position = overlapPosition(first.state)
        const second = worldOf(overlapState(rules, { version: first.state.version, position }))
        runOn(second, luck, 'none')
        const learned = [...done, ...second.steps.flat()].map(({ task }) => task)
        expect(learned.sort((a, b) => a - b)).toEqual(learned.map((_, i) => i))
        expect(learned.length).toBe(6 * rules.groups)
      }),
    )
  })

  it('draws one step ahead while a step is learned from, and the next when its weights are in use', () => {
    const world = worldOf(overlapState({ groups: 2, maxLag: 1 }))
    expect(world.drawn).toEqual([0, 1, 2, 3])
    for (const task of [3, 0]) react(world, { _tag: 'Sampled', task, oldest: 0, signal: 'yes' })
    expect(world.training).toEqual([
      { task: 0, lag: 0 },
      { task: 3, lag: 0 },
    ])
    expect(world.drawn).toHaveLength(4)
    react(world, { _tag: 'Trained' })
    expect([world.pushing, world.drawn.length]).toEqual([1, 4])
    react(world, { _tag: 'Pushed', version: 1 })
    expect(world.drawn).toEqual([0, 1, 2, 3, 4, 5])
  })

  it('waits for the oldest group, or drops it, or learns from it however old', () => {
    const begun = (stale: 'wait' | 'drop' | 'correct') => {
      const world = worldOf(overlapState({ groups: 1, maxLag: 1, stale, ahead: 3 }))
      const sampled = (task: number, oldest: number) => react(world, { _tag: 'Sampled', task, oldest, signal: 'yes' })
      const learn = () => {
        react(world, { _tag: 'Trained' })
        react(world, { _tag: 'Pushed', version: world.state.version })
      }
      sampled(1, 0)
      learn()
      return { world, sampled, learn }
    }
    const waits = begun('wait')
    waits.sampled(2, 1)
    expect(waits.world.training).toBeNull()
    waits.sampled(0, 0)
    expect(waits.world.training).toEqual([{ task: 0, lag: 1 }])

    const drops = begun('drop')
    drops.sampled(2, 0)
    expect(drops.world.training).toEqual([{ task: 2, lag: 1 }])
    expect([drops.world.left, drops.world.state.counts.dropped.stale]).toEqual([[0], 1])

    const corrects = begun('correct')
    corrects.sampled(2, 0)
    corrects.learn()
    corrects.sampled(0, 0)
    expect(corrects.world.training).toEqual([{ task: 0, lag: 2 }])
  })

  it('drops a group whose engine sampled it with older weights than it was given, rather than to wait for ever', () => {
    const world = worldOf(overlapState({ groups: 1, maxLag: 0 }, { version: 5 }))
    react(world, { _tag: 'Sampled', task: 0, oldest: 3, signal: 'yes' })
    expect([world.state.counts.dropped.stale, world.left, world.drawn]).toEqual([1, [0], [0, 1]])
  })

  it('leaves groups without a signal out, a few for each step', () => {
    const world = worldOf(overlapState({ groups: 1, maxLag: 0, refills: 2 }))
    for (const task of [0, 1, 2]) react(world, { _tag: 'Sampled', task, oldest: 0, signal: 'no' })
    expect([world.left, world.steps]).toEqual([[0, 1], [[{ task: 2, lag: 0 }]]])
  })

  it('halts when too much fails', () => {
    const world = worldOf(overlapState({ groups: 2, maxLag: 0, maxFailureShare: 0.1 }))
    react(world, { _tag: 'Failed', task: 0 })
    expect([world.state.mode, world.drawn]).toEqual(['running', [0, 1, 2]])
    react(world, { _tag: 'Failed', task: 1 })
    expect([world.state.mode, world.left]).toEqual(['halted', [2]])
    react(world, { _tag: 'Sampled', task: 2, oldest: 0, signal: 'yes' })
    expect(world.drawn).toHaveLength(3)
  })

  it('refuses rules that make no sense, all of them at once', () => {
    expect(() => overlapState({ groups: 0, maxLag: -1, ahead: 0 }, { version: 0.5 })).toThrow(
      'overlapState: groups must be an integer of at least 1, got 0; maxLag must be an integer of at least 0, got -1; ' +
        'ahead must be an integer of at least groups, 0, got 0; version must be an integer of at least 0, got 0.5',
    )
    expect(() => overlapState({ groups: 1 }, { position: { next: 2, open: [2, 2] } })).toThrow('position.open')
  })

  it('throws for what cannot have happened', () => {
    const state = overlapState({ groups: 1 })
    expect(() => overlapStep(state, { _tag: 'Trained' })).toThrow('no groups are in training')
    expect(() => overlapStep(state, { _tag: 'Pushed', version: 1 })).toThrow('version 1 was not being pushed')
  })
})
