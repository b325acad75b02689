import { existsSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { eventDataName, eventDataSchemas } from '../../src/api/schemas/events.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';

const ajv = new Ajv2020({ strict: false, allErrors: true });
(addFormats as unknown as typeof addFormats.default)(ajv);
const schemas = eventDataSchemas(true);

/** Asserts that the data of each event in the database is as the OpenAPI description has it, without fields that it does not name. */
export function expectDescribedEvents(databaseFile: string): void {
  if (!existsSync(databaseFile)) return; // a fault that the test made
  const database = new (loadDriver())(databaseFile, { readonly: true });
  const events = database.prepare('select event_type, event_data from call_events').all() as {
    event_type: string;
    event_data: string;
  }[];
  database.close();
  const problems = new Set<string>();
  for (const { event_type, event_data } of events) {
    const schema = schemas[eventDataName(event_type)];
    if (!schema) problems.add(`${event_type} is not described`);
    else if (!ajv.validate(schema, JSON.parse(event_data)))
      problems.add(`${event_type} ${event_data}: ${ajv.errorsText()}`);
  }
  if (problems.size > 0) throw new Error(`Events differ from their description:\n${[...problems].join('\n')}`);
}
