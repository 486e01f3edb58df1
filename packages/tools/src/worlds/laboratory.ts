/**
 * A small laboratory after ScienceWorld (Wang et al. 2022): change the state of a substance and
 * show it. It has two rooms, four substances and two devices, instead of ten rooms and 30 tasks of
 * primary school science. As there, the score is the share of the reached subgoals, and showing the
 * wrong thing ends the episode with a score of 0.
 */

import { child, type Key, uniformInteger } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { endlessTasks, type TaskSource } from 'tandem-rl'
import { z } from 'zod'
import type { TextWorld, WorldView } from './textWorld.js'

/**
 * Substances with their room, their temperature at the beginning, and where they melt and boil, in
 * degrees Celsius.
 */
const SUBSTANCES = {
  water: { room: 'kitchen', starts: 20, melts: 0, boils: 100 },
  chocolate: { room: 'kitchen', starts: 20, melts: 35, boils: 900 },
  wax: { room: 'workshop', starts: 20, melts: 60, boils: 900 },
  mercury: { room: 'workshop', starts: 20, melts: -39, boils: 357 },
} as const
/** Devices with their room, and the degrees that a turn in them adds. */
const DEVICES = { stove: { room: 'kitchen', adds: 60 }, freezer: { room: 'workshop', adds: -30 } } as const
const ROOMS = ['kitchen', 'workshop'] as const
const SUBGOALS = ['taken', 'placed', 'activated', 'changed', 'shown'] as const

type Substance = keyof typeof SUBSTANCES
type Device = keyof typeof DEVICES
type Room = (typeof ROOMS)[number]

/** The goal of an experiment. */
export interface LaboratoryGoal {
  readonly substance: Substance
  readonly state: 'solid' | 'liquid' | 'gas'
}

/** A task of the laboratory. */
export interface LaboratoryTask extends Task {
  readonly goal: LaboratoryGoal
}

/** The state of a laboratory. */
export interface LaboratoryState {
  readonly goal: LaboratoryGoal
  readonly room: Room
  readonly active: readonly Device[]
  /** The place of each substance: a room, a device or `hand`. */
  readonly at: Readonly<Record<Substance, Room | Device | 'hand'>>
  readonly temperatures: Readonly<Record<Substance, number>>
  readonly reached: readonly (typeof SUBGOALS)[number][]
  readonly end: 'open' | 'right' | 'wrong'
}

const names = Object.keys(SUBSTANCES) as readonly Substance[] // its keys
const devices = Object.keys(DEVICES) as readonly Device[] // its keys

const goalSchema = z.object({
  substance: z.enum(names as [Substance, ...Substance[]]), // there is one
  state: z.enum(['solid', 'liquid', 'gas']),
})

const phaseOf = (substance: Substance, temperature: number): LaboratoryGoal['state'] => {
  const { melts, boils } = SUBSTANCES[substance]
  return temperature < melts ? 'solid' : temperature < boils ? 'liquid' : 'gas'
}

/** Returns true if a thing is in the policy's room or hand. */
const isNear = ({ at, room }: LaboratoryState, substance: Substance): boolean => {
  const place = at[substance]
  return place === 'hand' || place === room || (place in DEVICES && DEVICES[place as Device].room === room) // a device
}

const actionsOf = (state: LaboratoryState): readonly string[] => {
  const { room, at, active } = state
  const near = names.filter((name) => isNear(state, name))
  const here = devices.filter((device) => DEVICES[device].room === room)
  return [
    ...ROOMS.filter((each) => each !== room).map((each) => `go to ${each}`),
    ...near.filter((name) => at[name] !== 'hand').map((name) => `take ${name}`),
    ...here.flatMap((device) => near.filter((name) => at[name] === 'hand').map((name) => `put ${name} in ${device}`)),
    ...here.map((device) => `${active.includes(device) ? 'deactivate' : 'activate'} ${device}`),
    ...near.flatMap((name) => [`measure ${name}`, `show ${name}`]),
    ...['wait', 'look'],
  ]
}

const lookedAt = (state: LaboratoryState): string => {
  const near = names.filter((name) => isNear(state, name))
  const here = devices.filter((device) => DEVICES[device].room === state.room)
  const shown = near.map((name) => `${name} (${phaseOf(name, state.temperatures[name])}, in ${state.at[name]})`)
  return `You are in the ${state.room}. You see: ${[...here, ...shown].join(', ')}.`
}

/** The state with the subgoals that it reaches added to those of before. */
const withReached = (state: LaboratoryState): LaboratoryState => {
  const { substance, state: wanted } = state.goal
  const place = state.at[substance]
  const holds: Readonly<Record<(typeof SUBGOALS)[number], boolean>> = {
    taken: place === 'hand' || place in DEVICES,
    placed: place in DEVICES,
    activated: place in DEVICES && state.active.includes(place as Device), // a device
    changed: phaseOf(substance, state.temperatures[substance]) === wanted,
    shown: state.end === 'right',
  }
  return { ...state, reached: SUBGOALS.filter((subgoal) => holds[subgoal] || state.reached.includes(subgoal)) }
}

const viewOf = (given: LaboratoryState, observation: string): WorldView<LaboratoryState> => {
  const state = withReached(given)
  const score = state.end === 'wrong' ? 0 : state.reached.length / SUBGOALS.length
  const done = state.end !== 'open'
  return { state, observation, actions: done ? [] : actionsOf(state), score, done }
}

/** Every turn, active devices change the temperature of what is in them. */
const afterTurn = (state: LaboratoryState): LaboratoryState => ({
  ...state,
  temperatures: Object.fromEntries(
    names.map((name) => {
      const device = devices.find((each) => each === state.at[name])
      const adds = device !== undefined && state.active.includes(device) ? DEVICES[device].adds : 0
      return [name, state.temperatures[name] + adds]
    }),
  ) as LaboratoryState['temperatures'], // one for each substance
})

/** The state and observation after an action that `actionsOf` lists. */
const moved = (state: LaboratoryState, action: string): readonly [LaboratoryState, string] => {
  const [verb, first, , last] = action.split(' ')
  const substance = first as Substance // in the actions below that use it
  const device = first as Device // in the actions below that use it
  switch (verb) {
    case 'go': {
      const next = { ...state, room: action.slice('go to '.length) as Room } // listed
      return [next, lookedAt(next)]
    }
    case 'take':
      return [{ ...state, at: { ...state.at, [substance]: 'hand' } }, `You take the ${first}.`]
    case 'put':
      return [{ ...state, at: { ...state.at, [substance]: last } }, `The ${first} is in the ${last}.`]
    case 'activate':
      return [{ ...state, active: [...state.active, device] }, `The ${first} is on.`]
    case 'deactivate':
      return [{ ...state, active: state.active.filter((each) => each !== device) }, `The ${first} is off.`]
    case 'measure':
      return [state, `The ${first} has ${state.temperatures[substance]} degrees.`]
    case 'show': {
      const { goal } = state
      const isRight = substance === goal.substance && phaseOf(substance, state.temperatures[substance]) === goal.state
      return [{ ...state, end: isRight ? 'right' : 'wrong' }, isRight ? 'That is right.' : 'That is wrong.']
    }
    default:
      return [state, lookedAt(state)]
  }
}

/**
 * Makes a laboratory as a text world.
 *
 * Source   ScienceWorld (Wang et al. 2022); the header of this file lists the differences.
 *
 * @example
 * laboratoryWorld().name // 'laboratory'
 */
export const laboratoryWorld = (): TextWorld<LaboratoryState> => ({
  name: 'laboratory',
  description:
    'Acts in a laboratory. Actions: go to ROOM, take SUBSTANCE, put SUBSTANCE in DEVICE, activate/deactivate DEVICE, measure SUBSTANCE, show SUBSTANCE, wait, look.',
  start: (args) => {
    const goal = goalSchema.safeParse(args)
    if (!goal.success) return E.left(z.prettifyError(goal.error))
    const of = <T>(f: (name: Substance) => T) => Object.fromEntries(names.map((name) => [name, f(name)]))
    const state: LaboratoryState = {
      goal: goal.data,
      room: 'kitchen',
      active: [],
      reached: [],
      end: 'open',
      at: of((name) => SUBSTANCES[name].room) as LaboratoryState['at'], // one for each substance
      temperatures: of((name) => SUBSTANCES[name].starts) as LaboratoryState['temperatures'], // as above
    }
    return E.right(viewOf(state, lookedAt(state)))
  },
  act: (state, action) => {
    const requested = action.trim().toLowerCase()
    if (state.end !== 'open' || !actionsOf(state).includes(requested)) return viewOf(state, 'That does not work.')
    const [next, observation] = moved(state, requested)
    return viewOf(next.end === 'open' ? afterTurn(next) : next, observation)
  },
})

/** Substances, the states that they can be brought to, and the device for it. */
const CHANGES: readonly (LaboratoryGoal & { readonly device: Device })[] = [
  { substance: 'water', state: 'gas', device: 'stove' },
  { substance: 'water', state: 'solid', device: 'freezer' },
  { substance: 'chocolate', state: 'liquid', device: 'stove' },
  { substance: 'wax', state: 'liquid', device: 'stove' },
  { substance: 'mercury', state: 'solid', device: 'freezer' },
  { substance: 'mercury', state: 'gas', device: 'stove' },
]

/**
 * Makes endless tasks for a laboratory. The source is pure.
 *
 * @example
 * orThrow(laboratoryTasks(keyFromSeed(1)).at(0)).query.startsWith('Show ') // true
 */
export const laboratoryTasks = (key: Key): TaskSource<LaboratoryTask> =>
  endlessTasks('laboratory', (index) => {
    const { substance, state } = CHANGES[uniformInteger(child(key, index), CHANGES.length)]!
    return {
      id: `laboratory-${index}`,
      query: `Show ${substance} as a ${state}.`,
      answer: '',
      goal: { substance, state },
    }
  })

/**
 * Returns actions that solve a task with a score of 1.
 *
 * @example
 * laboratorySolution(orThrow(laboratoryTasks(keyFromSeed(1)).at(0))).at(-1)?.startsWith('show ') // true
 */
export const laboratorySolution = ({ goal }: LaboratoryTask): readonly string[] => {
  const { substance, state } = goal
  const { device } = CHANGES.find((each) => each.substance === substance && each.state === state)!
  const [from, to] = [SUBSTANCES[substance].room, DEVICES[device].room]
  const { starts, melts, boils } = SUBSTANCES[substance]
  const target = state === 'solid' ? melts - 1 : state === 'liquid' ? melts : boils
  const turns = Math.ceil((target - starts) / DEVICES[device].adds) // the turn that activates is the first
  return [
    ...(from === 'kitchen' ? [] : [`go to ${from}`]),
    `take ${substance}`,
    ...(from === to ? [] : [`go to ${to}`]),
    `put ${substance} in ${device}`,
    `activate ${device}`,
    ...Array.from({ length: Math.max(0, turns - 1) }, () => 'wait'),
    `show ${substance}`,
  ]
}
