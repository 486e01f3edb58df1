/**
 * A small household after ALFWorld (Shridhar et al. 2021): find a thing, prepare it, and put it
 * where it belongs. It has one room with a few places, instead of 120 rooms of a simulator, and its
 * commands are ALFWorld's. The score is 1 when the goal is reached, and 0 before.
 */

import { child, type Key, uniformInteger } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { endlessTasks, type TaskSource } from 'tandem-rl'
import { z } from 'zod'
import type { TextWorld, WorldView } from './textWorld.js'

const THINGS = ['mug', 'apple', 'plate', 'egg', 'cloth'] as const
/** The places of things. Closed places must be opened. */
const PLACES = {
  table: 'open',
  shelf: 'open',
  cabinet: 'closed',
  fridge: 'closed',
  microwave: 'closed',
  sink: 'open',
} as const
const STATES = { clean: 'sink', hot: 'microwave', cool: 'fridge' } as const
const VERBS = { clean: 'clean', heat: 'hot', cool: 'cool' } as const

type Place = keyof typeof PLACES
type Condition = keyof typeof STATES

/** A task, and the initial places of the things. */
export interface HouseholdGoal {
  readonly thing: string
  readonly condition: Condition | 'any'
  readonly to: Place
  /** The place of each thing. */
  readonly at: Readonly<Record<string, Place>>
}

/** A task of the household. */
export interface HouseholdTask extends Task {
  readonly goal: HouseholdGoal
}

/** The state of a household. */
export interface HouseholdState {
  readonly goal: HouseholdGoal
  readonly here: Place | 'middle'
  readonly opened: readonly Place[]
  /** The place of each thing, or `hand`. */
  readonly at: Readonly<Record<string, Place | 'hand'>>
  readonly conditions: Readonly<Record<string, Condition>>
}

const placeSchema = z.enum(Object.keys(PLACES) as [Place, ...Place[]]) // there is a place
const goalSchema = z.object({
  thing: z.string(),
  condition: z.enum(['clean', 'hot', 'cool', 'any']),
  to: placeSchema,
  at: z.record(z.string(), placeSchema),
})

const isOpen = ({ opened }: HouseholdState, place: Place): boolean => PLACES[place] === 'open' || opened.includes(place)

const seenAt = (state: HouseholdState, place: Place): string => {
  if (!isOpen(state, place)) return `The ${place} is closed.`
  const things = Object.keys(state.at).filter((thing) => state.at[thing] === place)
  return things.length === 0 ? `On the ${place} there is nothing.` : `On the ${place} there is: ${things.join(', ')}.`
}

const isReached = ({ goal, at, conditions }: HouseholdState): boolean =>
  at[goal.thing] === goal.to && (goal.condition === 'any' || conditions[goal.thing] === goal.condition)

const actionsOf = (state: HouseholdState): readonly string[] => {
  const { here, at } = state
  const held = Object.keys(at).find((thing) => at[thing] === 'hand')
  const moves = Object.keys(PLACES).filter((place) => place !== here)
  const local = (place: Place): readonly string[] => {
    if (!isOpen(state, place)) return [`open ${place}`]
    const things = Object.keys(at).filter((thing) => at[thing] === place)
    if (held === undefined) return things.map((thing) => `take ${thing} from ${place}`)
    const prepared = Object.entries(VERBS).flatMap(([verb, condition]) =>
      STATES[condition] === place ? [`${verb} ${held} with ${place}`] : [],
    )
    return [`put ${held} in ${place}`, ...prepared]
  }
  return [...(here === 'middle' ? [] : local(here)), ...moves.map((place) => `go to ${place}`), 'look']
}

const viewOf = (state: HouseholdState, observation: string): WorldView<HouseholdState> => {
  const done = isReached(state)
  return { state, observation, actions: done ? [] : actionsOf(state), score: done ? 1 : 0, done }
}

/** The state after an action that `actionsOf` lists, and what is seen. */
const moved = (state: HouseholdState, action: string): WorldView<HouseholdState> => {
  const words = action.split(' ')
  const here = state.here as Place // of all actions but `go to` and `look`, which do not use it
  switch (words[0]) {
    case 'go': {
      const place = words[2] as Place // listed
      const next = { ...state, here: place }
      return viewOf(next, seenAt(next, place))
    }
    case 'open': {
      const next = { ...state, opened: [...state.opened, here] }
      return viewOf(next, seenAt(next, here))
    }
    case 'take':
      return viewOf({ ...state, at: { ...state.at, [words[1]!]: 'hand' } }, `You take the ${words[1]}.`)
    case 'put':
      return viewOf({ ...state, at: { ...state.at, [words[1]!]: here } }, `You put the ${words[1]} in the ${here}.`)
    case 'look':
      return viewOf(state, state.here === 'middle' ? placesText() : seenAt(state, here))
    default: {
      const condition = VERBS[words[0] as keyof typeof VERBS] // listed
      const conditions = { ...state.conditions, [words[1]!]: condition }
      return viewOf({ ...state, conditions }, `The ${words[1]} is ${condition} now.`)
    }
  }
}

const placesText = (): string => `You are in the middle of a room. You see: ${Object.keys(PLACES).join(', ')}.`

/**
 * Makes a household as a text world.
 *
 * Source   ALFWorld (Shridhar et al. 2021); the header of this file lists the differences.
 *
 * @example
 * householdWorld().name // 'household'
 */
export const householdWorld = (): TextWorld<HouseholdState> => ({
  name: 'household',
  description:
    'Acts in a household. Actions: go to PLACE, open PLACE, take THING from PLACE, put THING in PLACE, clean/heat/cool THING with PLACE, look.',
  start: (args) => {
    const goal = goalSchema.safeParse(args)
    if (!goal.success) return E.left(z.prettifyError(goal.error))
    const state: HouseholdState = { goal: goal.data, here: 'middle', opened: [], at: goal.data.at, conditions: {} }
    return E.right(viewOf(state, placesText()))
  },
  act: (state, action) => {
    const wanted = action.trim().toLowerCase()
    return actionsOf(state).includes(wanted) && !isReached(state)
      ? moved(state, wanted)
      : viewOf(state, 'Nothing happens.')
  },
})

const sentenceOf = ({ thing, condition, to }: HouseholdGoal): string =>
  `Put a ${condition === 'any' ? '' : `${condition} `}${thing} in the ${to}.`

/**
 * Makes endless tasks for a household. The source is pure.
 *
 * @example
 * orThrow(householdTasks(keyFromSeed(1)).at(0)).query.startsWith('Put a ') // true
 */
export const householdTasks = (key: Key): TaskSource<HouseholdTask> =>
  endlessTasks('household', (index) => {
    const own = child(key, index)
    const places = Object.keys(PLACES) as Place[] // its keys
    const at = Object.fromEntries(THINGS.map((thing, i) => [thing, places[uniformInteger(own, places.length, i)]!]))
    const thing = THINGS[uniformInteger(own, THINGS.length, 10)]!
    const conditions = ['any', 'clean', 'hot', 'cool'] as const
    const free = places.filter((place) => place !== at[thing])
    const goal: HouseholdGoal = {
      thing,
      at,
      condition: conditions[uniformInteger(own, conditions.length, 11)]!,
      to: free[uniformInteger(own, free.length, 12)]!,
    }
    return { id: `household-${index}`, query: sentenceOf(goal), answer: '', goal }
  })

/**
 * Returns actions that reach the goal of a task.
 *
 * @example
 * householdSolution(orThrow(householdTasks(keyFromSeed(1)).at(0)))[0]?.startsWith('go to ') // true
 */
export const householdSolution = ({ goal: { thing, condition, to, at } }: HouseholdTask): readonly string[] => {
  const opened = new Set<Place>()
  const reach = (place: Place): readonly string[] => {
    const opens = PLACES[place] === 'closed' && !opened.has(place)
    opened.add(place)
    return [`go to ${place}`, ...(opens ? [`open ${place}`] : [])]
  }
  const from = at[thing]!
  const verb = Object.keys(VERBS).find((each) => VERBS[each as keyof typeof VERBS] === condition) // its keys
  return [
    ...reach(from),
    `take ${thing} from ${from}`,
    ...(condition === 'any' ? [] : [...reach(STATES[condition]), `${verb} ${thing} with ${STATES[condition]}`]),
    ...reach(to),
    `put ${thing} in ${to}`,
  ]
}
