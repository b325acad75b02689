import { useEffect, useState } from 'preact/hooks';
import { onSession, session } from './api/session';
import { Frame } from './frame';
import { SignIn } from './pages/sign-in';

export function App() {
  const [current, setCurrent] = useState(session());
  useEffect(() => onSession(() => setCurrent(session())), []);
  return current ? <Frame key={`${current.token} ${current.organizationId}`} /> : <SignIn />;
}
