import type { StoredProviderConfig } from '../../store/tenants/secrets.js';
import {
  type AnswerAction,
  answerActions,
  type MachineDetection,
  machineDetections,
  type OutboundCall,
} from '../core/outbound-request.js';

/** How a call finds out who answered, and what follows. */
export interface AnsweringPlan {
  detection: MachineDetection;
  /** The agent is silent until it is known who answered. */
  waits: boolean;
  actions: Record<'machine' | 'screening' | 'operator' | 'fax', AnswerAction>;
  /** For `press`. */
  keys: string;
}

type Wish = Pick<
  OutboundCall,
  'machineDetection' | 'waitsForMachine' | 'onMachine' | 'onScreening' | 'onOperator' | 'onFax' | 'pressKeys'
>;

/** What the call asks for, and for what it leaves open the endpoint's `provider_config`. */
export function answeringPlan(wish: Wish, config: StoredProviderConfig = {}): AnsweringPlan {
  const action = (asked: AnswerAction | undefined, field: string) =>
    asked ?? answerActions.find((each) => each === config[field]) ?? 'talk';
  const actions = {
    machine: action(wish.onMachine, 'on_machine'),
    screening: action(wish.onScreening, 'on_screening'),
    operator: action(wish.onOperator, 'on_operator'),
    fax: action(wish.onFax, 'on_fax'),
  };
  const all = Object.values(actions);
  const named = wish.machineDetection ?? machineDetections.find((each) => each === config.machine_detection);
  const detection = named ?? (all.some((each) => each !== 'talk') ? 'detect' : 'off');
  const waits =
    wish.waitsForMachine ??
    config.wait_for_detection ??
    all.some((each) => each === 'leave_message' || each === 'press');
  const keys = wish.pressKeys ?? (typeof config.press_keys === 'string' ? config.press_keys : '1');
  return {
    // A message is left when the greeting is over.
    detection: detection === 'detect' && actions.machine === 'leave_message' ? 'detect_message_end' : detection,
    waits: detection !== 'off' && waits === true,
    actions,
    keys: keys.replace(/[a-d]/g, (key) => key.toUpperCase()),
  };
}
